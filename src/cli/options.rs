//! The command line: fixed options by clap's derive, a workload's own options from its file, and what they become.
//!
//! Option names are sysbench 1.0's where it has one, and `-` and `_` are the same in them. A profile changes
//! defaults before the command line is read, so anything given wins over it.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::env::VarError;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::PossibleValuesParser;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueEnum};

use super::profile::{self, Profile};
use super::{CliError, without_passwords};
use crate::compare::precision::Goal;
use crate::report;
use crate::report::findings::CODES;
use crate::spec::{
    Algorithm, Arrival, IgnoredErrors, MySqlAddress, OpenLoop, PasswordCommand, RunSpec, Secret, SslFiles, SslMode,
    Step, TargetAddress, without_brackets,
};
use crate::workload::{OptionDefinition, OptionValue, RandomKind, RandomSettings, Settings, Workload, nearest};

/// The file that is measured when no target is given.
pub(super) const DEFAULT_SQLITE: &str = "oltpbench.sqlite";

/// Numbers below this are exact in every reader of JSON, many of which know only floating point.
const EXACT: u64 = 1 << 53;

/// The seed of a prepare that is given none: the same data each time.
pub(super) const DATA_SEED: u64 = 0;

/// A seed for a run that is given none.
pub(super) fn new_seed() -> u64 {
    rand::random_range(1..EXACT)
}

// No `Debug`: the URL may hold a password.
#[derive(Args, Clone)]
#[command(next_help_heading = "Target")]
pub(super) struct TargetArgs {
    /// What to measure: mysql://USER@HOST:3306/DATABASE, sqlite:FILE or simulated:?service-time=1ms. Without it and the
    /// next five, OLTPBENCH_URL counts [default: sqlite:oltpbench.sqlite]
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Server's host name or address [default: localhost]
    #[arg(long, alias = "mysql-host", value_name = "HOST", conflicts_with = "url")]
    host: Option<String>,
    /// Server's port [default: 3306]
    #[arg(long, alias = "mysql-port", value_name = "PORT", conflicts_with = "url")]
    port: Option<u16>,
    /// User to log in as [default: sbtest]
    #[arg(long, alias = "mysql-user", value_name = "NAME", conflicts_with = "url")]
    user: Option<String>,
    /// Database that holds the tables [default: sbtest]
    #[arg(long, alias = "mysql-db", value_name = "NAME", conflicts_with = "url")]
    database: Option<String>,
    /// Server's Unix socket, instead of host and port
    #[arg(long, alias = "mysql-socket", value_name = "PATH", conflicts_with_all = ["url", "host", "port"])]
    socket: Option<PathBuf>,
    /// File whose first line is the password; OLTPBENCH_PASSWORD may hold it instead
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Ask for the password
    #[arg(long, conflicts_with = "password_file")]
    ask_password: bool,
    /// Command for `sh -c` that prints the password, such as a token; it is given no input, may take as long as
    /// --connect-timeout, and its standard error is shown. It is run again when --password-ttl is over or the server refuses
    /// what it printed
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["password_file", "ask_password"])]
    password_command: Option<String>,
    /// Seconds for which new connections use what --password-command printed; 0 runs it for each [default: 600]
    #[arg(long, value_parser = parse_seconds, value_name = "SECONDS", requires = "password_command")]
    password_ttl: Option<Duration>,
    /// Whether to encrypt connections, and what to verify [default: disabled, or verify-ca with --ssl-ca] [possible values:
    /// disabled, preferred, required, verify-ca, verify-identity]
    #[arg(long, value_name = "MODE", value_parser = parse_ssl_mode)]
    ssl_mode: Option<SslMode>,
    /// PEM file with the certificates of trusted authorities, which --ssl-mode verify-ca needs [default: the platform's,
    /// for verify-identity only]
    #[arg(long, value_name = "FILE")]
    ssl_ca: Option<PathBuf>,
    /// PEM file with the client's certificate
    #[arg(long, value_name = "FILE", requires = "ssl_key")]
    ssl_cert: Option<PathBuf>,
    /// PEM file with the key of the client's certificate
    #[arg(long, value_name = "FILE", requires = "ssl_cert")]
    ssl_key: Option<PathBuf>,
    /// Name that the server's certificate must be for, in place of its host name
    #[arg(long, value_name = "NAME")]
    ssl_server_name: Option<String>,
    /// Send the password as it is to a server that asks for it, even where others may listen
    #[arg(long)]
    enable_cleartext_plugin: bool,
    /// Compress all connections [possible values: zlib, zstd]
    #[arg(long, value_name = "ALGORITHM", value_parser = parse_algorithm)]
    compress: Option<Algorithm>,
    /// Seconds that a connection may take, its login and --init-sql included, and each answer that a run or check needs
    /// beforehand [default: 10]
    #[arg(long, value_parser = parse_timeout, value_name = "SECONDS")]
    connect_timeout: Option<Duration>,
    /// Statement that each connection begins with; may be given several times. Reports show none of what it has in quotes
    #[arg(long, value_name = "SQL")]
    init_sql: Vec<String>,
    /// What was answered to --ask-password.
    #[arg(skip)]
    asked: OnceCell<Secret>,
}

/// A target of an experiment, as it was given; without a name if it is not NAME=URL.
// No `Debug`: the URL may hold a password.
#[derive(Clone)]
pub(super) struct NamedUrl {
    pub(super) name: String,
    url: String,
}

/// Refuses nothing, since clap's message would repeat the text, which may hold a password.
fn parse_named_url(text: &str) -> Result<NamedUrl, Infallible> {
    let (name, url) = text.split_once('=').unwrap_or_default();
    Ok(NamedUrl { name: name.into(), url: url.into() })
}

impl NamedUrl {
    fn address(&self) -> Result<TargetAddress, CliError> {
        // It is part of the names of files, and of columns.
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
        if !(1..=20).contains(&self.name.len()) || !self.name.chars().all(fits) {
            return Err(CliError::usage(
                "a --target is NAME=URL, such as direct=mysql://10.0.0.5/sbtest; a name has up to 20 letters, digits, `-`, `_` and `.`",
            ));
        }
        warn_of_visible_password(&self.url, "--target");
        let wrong = |error| CliError::usage(format!("--target {}: {error}", self.name));
        TargetAddress::parse(&self.url).map_err(wrong)
    }
}

/// Reports are shown to others, and a name may be the URL of what it is the name of.
fn parse_name(text: &str) -> Result<String, Infallible> {
    Ok(without_passwords(text))
}

fn parse_tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.into(), without_passwords(value))),
        _ => Err("a tag is KEY=VALUE, such as region=europe-west1".into()),
    }
}

/// Repeats with --until-precision where --repeat does not say how many are made at least. With so many the intervals of
/// experiments that end by themselves hold what they should; docs/experiments.md has the figures.
const LEAST_REPEATS: u32 = 10;
/// With fewer, intervals are small by chance too often.
const FEWEST_REPEATS: u32 = 4;
/// Repeats with --until-precision at most, unless --max-repeats is given.
const MOST_REPEATS: u32 = 30;

/// How many repeats an experiment has.
#[derive(Clone, Copy)]
pub(super) struct Repeats {
    /// By --repeat.
    pub(super) asked: Option<u32>,
    pub(super) least: u32,
    /// When those beyond are made.
    pub(super) goal: Option<Goal>,
}

#[derive(Args, Clone)]
#[command(next_help_heading = "Experiment")]
pub(super) struct GridArgs {
    /// A target and its name, such as direct=mysql://10.0.0.5/sbtest, in place of --url; may be given several times
    #[arg(long, value_name = "NAME=URL", value_parser = parse_named_url, conflicts_with_all = ["url", "host", "port", "user", "database", "socket"])]
    pub(super) target: Vec<NamedUrl>,
    /// How often each combination of target, threads and rate is measured; repeats have different orders
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    pub(super) repeat: Option<u32>,
    /// Go on after --repeat [then 10 by default] until each target's figure is known to so much, such as 2%
    #[arg(long, value_parser = parse_precision, value_name = "PERCENT")]
    until_precision: Option<f64>,
    /// How many repeats --until-precision makes at most [default: 30]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N", requires = "until_precision")]
    max_repeats: Option<u32>,
    /// New folder for the experiment's reports [default: named after the time]
    #[arg(long, value_name = "DIR")]
    pub(super) dir: Option<PathBuf>,
    /// Go on with the experiment in DIR, which the same command began
    #[arg(long, value_name = "DIR", conflicts_with = "dir")]
    pub(super) resume: Option<PathBuf>,
    /// Name of the run or experiment, for reports
    #[arg(long, value_name = "TEXT", value_parser = parse_name)]
    pub(super) name: Option<String>,
    /// Something to tell runs apart by, such as region=europe-west1, for reports; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_tag)]
    tag: Vec<(String, String)>,
}

impl GridArgs {
    /// Whether this is an experiment in place of a run by itself.
    pub(super) fn is_experiment(&self, args: &RunArgs) -> bool {
        let several = args.threads.len() > 1 || args.rate.len() > 1 || !self.target.is_empty();
        let repeated = self.repeat.is_some() || self.until_precision.is_some();
        several || repeated || self.dir.is_some() || self.resume.is_some()
    }

    pub(super) fn repeats(&self) -> Result<Repeats, CliError> {
        let Some(width) = self.until_precision else {
            return Ok(Repeats { asked: self.repeat, least: self.repeat.unwrap_or(1), goal: None });
        };
        let least = self.repeat.unwrap_or(LEAST_REPEATS);
        if least < FEWEST_REPEATS {
            return Err(CliError::usage(format!(
                "--until-precision needs --repeat {FEWEST_REPEATS} or more, since an interval of fewer is small by chance"
            )));
        }
        let most_repeats = self.max_repeats.unwrap_or(least.max(MOST_REPEATS));
        if most_repeats < least {
            return Err(CliError::usage(format!(
                "--max-repeats {most_repeats} is less than the {least} repeats that are made at least (--repeat)"
            )));
        }
        Ok(Repeats { asked: self.repeat, least, goal: Some(Goal { width, most_repeats }) })
    }

    pub(super) fn tags(&self) -> Result<BTreeMap<String, String>, CliError> {
        let tags: BTreeMap<String, String> = self.tag.iter().cloned().collect();
        match tags.len() == self.tag.len() {
            true => Ok(tags),
            false => Err(CliError::usage("--tag has a key more than once; give each once")),
        }
    }
}

fn parse_ssl_mode(text: &str) -> Result<SslMode, String> {
    SslMode::parse(text).ok_or_else(|| format!("use {}", SslMode::NAMES.join(", ")))
}

fn parse_algorithm(text: &str) -> Result<Algorithm, String> {
    let found = Algorithm::ALL.into_iter().find(|algorithm| algorithm.name() == text.to_ascii_lowercase());
    found.ok_or_else(|| format!("use {}", Algorithm::ALL.map(Algorithm::name).join(" or ")))
}

/// A variable of the environment. One that is set but empty is as good as none.
fn variable(name: &str) -> Result<Option<String>, CliError> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(VarError::NotPresent) => Ok(None),
        // It is not repeated, since it may hold a password.
        Err(VarError::NotUnicode(_)) => Err(CliError::usage(format!("{name} is not UTF-8; set it anew or unset it"))),
    }
}

/// Asks for a password at the terminal.
fn ask_password(user: &str) -> Result<Secret, CliError> {
    rpassword::prompt_password(format!("Password of {user}: ")).map(Secret::new).map_err(|error| match error.kind() {
        ErrorKind::Interrupted => CliError::Interrupted("interrupted while asking for the password".into()),
        _ => CliError::usage(format!(
            "no password could be asked for ({error}); without a terminal use OLTPBENCH_PASSWORD, --password-file or \
             --password-command"
        )),
    })
}

impl TargetArgs {
    /// The target, and whether it was chosen by default. Only a command that runs statements has a time for them.
    pub(super) fn address(&self, statement_timeout: Option<Duration>) -> Result<(TargetAddress, bool), CliError> {
        let (address, by_default) = self.place()?;
        Ok((self.completed(address, statement_timeout)?, by_default))
    }

    /// The targets of an experiment. What is only for MySQL is for those that are, and of no use if none is.
    pub(super) fn addresses(
        &self,
        targets: &[NamedUrl],
        statement_timeout: Option<Duration>,
    ) -> Result<Vec<TargetAddress>, CliError> {
        let addresses = targets.iter().map(NamedUrl::address).collect::<Result<Vec<_>, _>>()?;
        let is_mysql = |address: &TargetAddress| matches!(address, TargetAddress::MySql(_));
        let any_mysql = addresses.iter().any(is_mysql);
        let complete = |address| match any_mysql && !is_mysql(&address) {
            true => Ok(address),
            false => self.completed(address, statement_timeout),
        };
        addresses.into_iter().map(complete).collect()
    }

    fn completed(
        &self,
        address: TargetAddress,
        statement_timeout: Option<Duration>,
    ) -> Result<TargetAddress, CliError> {
        match self.with_secrets(address, statement_timeout.is_some())? {
            TargetAddress::MySql(mysql) => {
                Ok(TargetAddress::MySql(Box::new(MySqlAddress { statement_timeout, ..*mysql })))
            }
            address => Ok(address),
        }
    }

    /// The target by its URL or its parts.
    fn place(&self) -> Result<(TargetAddress, bool), CliError> {
        let by_parts = self.host.is_some()
            || self.port.is_some()
            || self.user.is_some()
            || self.database.is_some()
            || self.socket.is_some();
        let parsed = |url: &str| TargetAddress::parse(url).map_err(|error| CliError::usage(error.to_string()));
        if let Some(url) = &self.url {
            warn_of_visible_password(url, "--url");
            return Ok((parsed(url)?, false));
        }
        if by_parts {
            if variable("OLTPBENCH_URL")?.is_some() {
                super::show_error(
                    "Note: OLTPBENCH_URL is not used, since parts of an address are given; what is not among them is its default.",
                );
            }
            return Ok((TargetAddress::MySql(Box::new(self.mysql_parts()?)), false));
        }
        match variable("OLTPBENCH_URL")? {
            Some(url) => Ok((parsed(&url)?, false)),
            None => Ok((TargetAddress::Sqlite(DEFAULT_SQLITE.into()), true)),
        }
    }

    fn mysql_parts(&self) -> Result<MySqlAddress, CliError> {
        // It is not repeated, since it may hold a password.
        if self.host.as_deref().is_some_and(|host| host.contains(['@', '/'])) {
            return Err(CliError::usage(
                "--host is a host's name or address alone; give the user by --user, or a --url",
            ));
        }
        let default = MySqlAddress::default();
        Ok(MySqlAddress {
            host: self.host.as_deref().filter(|host| !host.is_empty()).map_or(default.host, without_brackets),
            port: self.port.unwrap_or(default.port),
            socket: self.socket.clone(),
            user: self.user.clone().unwrap_or(default.user),
            database: self.database.clone().unwrap_or(default.database),
            ..MySqlAddress::default()
        })
    }

    /// Adds password and encryption. A file or a prompt wins over the URL, the URL over the environment.
    fn with_secrets(&self, address: TargetAddress, has_timeout: bool) -> Result<TargetAddress, CliError> {
        let TargetAddress::MySql(mut mysql) = address else {
            let useless = [
                ("--password-file", self.password_file.is_some()),
                ("--ask-password", self.ask_password),
                ("--password-command", self.password_command.is_some()),
                ("--ssl-mode", self.ssl_mode.is_some()),
                ("--ssl-ca", self.ssl_ca.is_some()),
                ("--ssl-cert", self.ssl_cert.is_some()),
                ("--ssl-server-name", self.ssl_server_name.is_some()),
                ("--enable-cleartext-plugin", self.enable_cleartext_plugin),
                ("--compress", self.compress.is_some()),
                ("--connect-timeout", self.connect_timeout.is_some()),
                ("--statement-timeout", has_timeout),
                ("--init-sql", !self.init_sql.is_empty()),
            ];
            return match useless.iter().find(|(_, given)| *given) {
                Some((name, _)) => Err(CliError::usage(format!("{name} is only for mysql:// targets; leave it out"))),
                None => Ok(address),
            };
        };
        if let Some(command) = &self.password_command {
            mysql.password_command = Some(self.only_source(command, mysql.password.is_some())?);
        } else if let Some(file) = &self.password_file {
            mysql.password = Some(read_password(file)?);
        } else if self.ask_password {
            mysql.password = Some(self.asked_password(&mysql.user)?);
        } else if mysql.password.is_none() {
            mysql.password = variable("OLTPBENCH_PASSWORD")?.map(Secret::new);
        }
        // A server tells a login with an empty password from one without.
        mysql.password = mysql.password.filter(|password| !password.reveal().is_empty());
        self.with_tls(&mut mysql)?;
        mysql.cleartext_allowed = self.enable_cleartext_plugin;
        mysql.connect_timeout = self.connect_timeout.unwrap_or(mysql.connect_timeout);
        mysql.compression = self.compress;
        mysql.init_sql = self.init_sql.clone();
        Ok(TargetAddress::MySql(mysql))
    }
}

/// Tokens of AWS are good for 15 minutes.
const PASSWORD_TTL: Duration = Duration::from_secs(600);

impl TargetArgs {
    /// The password of --ask-password, which is asked for once and is that of all targets.
    fn asked_password(&self, user: &str) -> Result<Secret, CliError> {
        match self.asked.get() {
            Some(password) => Ok(password.clone()),
            None => {
                let password = ask_password(user)?;
                Ok(self.asked.get_or_init(|| password).clone())
            }
        }
    }

    /// The command that prints the password, which must come from nowhere else.
    fn only_source(&self, command: &str, in_url: bool) -> Result<PasswordCommand, CliError> {
        let other = match (in_url, variable("OLTPBENCH_PASSWORD")?) {
            (true, _) => Some("in the URL"),
            (false, Some(_)) => Some("in OLTPBENCH_PASSWORD"),
            (false, None) => None,
        };
        match other {
            Some(place) => {
                Err(CliError::usage(format!("there is a password {place}; leave it or --password-command out")))
            }
            None if command.trim().is_empty() => Err(CliError::usage("--password-command is empty; leave it out")),
            None => {
                Ok(PasswordCommand { command: Secret::new(command), ttl: self.password_ttl.unwrap_or(PASSWORD_TTL) })
            }
        }
    }

    /// Adds encryption. Files that would verify nothing are refused, since whoever gives them believes that they do.
    fn with_tls(&self, mysql: &mut MySqlAddress) -> Result<(), CliError> {
        match self.ssl_mode {
            Some(mode) => mysql.ssl_mode = mode,
            // As MySQL's own client does.
            None if self.ssl_ca.is_some() && mysql.ssl_mode == SslMode::Disabled => mysql.ssl_mode = SslMode::VerifyCa,
            None => {}
        }
        let mode = mysql.ssl_mode;
        let refused = |what: &str| Err(CliError::usage(format!("{what}, and --ssl-mode is {}", mode.name())));
        if self.ssl_ca.is_some() && !mode.verifies() {
            return refused("--ssl-ca is only for --ssl-mode verify-ca and verify-identity");
        }
        if self.ssl_server_name.is_some() && mode != SslMode::VerifyIdentity {
            return refused("--ssl-server-name is only for --ssl-mode verify-identity");
        }
        if self.ssl_cert.is_some() && mode == SslMode::Disabled {
            return refused("--ssl-cert needs an encrypted connection");
        }
        if self.ssl_ca.is_none() && mode == SslMode::VerifyCa {
            return Err(CliError::usage(
                "--ssl-mode verify-ca needs --ssl-ca: without it any certificate of a public authority would do, whoever \
                 holds it; give the authority's file, or use --ssl-mode verify-identity",
            ));
        }
        if self.ssl_ca.is_none() && self.ssl_server_name.is_some() {
            return refused("--ssl-server-name needs the authority by --ssl-ca");
        }
        mysql.ssl = SslFiles {
            ca: self.ssl_ca.clone(),
            client: self.ssl_cert.clone().zip(self.ssl_key.clone()),
            server_name: self.ssl_server_name.clone(),
        };
        Ok(())
    }
}

/// Command lines can be read by every user of the machine.
fn warn_of_visible_password(url: &str, option: &str) {
    if url::Url::parse(url).is_ok_and(|url| url.password().is_some()) {
        super::show_error(format_args!(
            "Note: other users of this machine see the password in {option}; OLTPBENCH_PASSWORD hides it."
        ));
    }
}

fn read_password(file: &std::path::Path) -> Result<Secret, CliError> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| CliError::usage(format!("--password-file {} cannot be read: {error}", file.display())))?;
    Ok(Secret::new(text.lines().next().unwrap_or_default()))
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Workload")]
pub(super) struct WorkloadArgs {
    // What it says is in `mode_help`.
    #[arg(long, value_name = "MODE", conflicts_with = "workload", help = mode_help())]
    mode: Option<String>,
    /// A workload's name (see `oltpbench workloads list`) or its YAML file
    #[arg(long, value_name = "NAME|FILE")]
    workload: Option<String>,
    /// Repeat a published experiment, whose options then are the defaults: --help beside it shows them [possible values:
    /// aurora-whitepaper]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Random numbers")]
pub(super) struct RandomArgs {
    /// Distribution of the ids
    #[arg(long, value_enum, default_value = "uniform", value_name = "TYPE")]
    rand_type: RandType,
    /// Seed of everything random, below 2^53; 0 takes a new one for each run, and the same one for each prepare
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..EXACT), value_name = "N")]
    rand_seed: u64,
    /// gaussian and special: number of uniform draws that are averaged
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "N")]
    rand_spec_iter: u32,
    /// special: size of the hot window, in percent of the table
    #[arg(long, default_value_t = 1, value_name = "PERCENT")]
    rand_spec_pct: u32,
    /// special: percentage of draws that fall into the hot window
    #[arg(long, default_value_t = 75, value_name = "PERCENT")]
    rand_spec_res: u32,
    /// pareto: shape
    #[arg(long, default_value_t = 0.2, value_name = "H")]
    rand_pareto_h: f64,
    /// zipfian: exponent
    #[arg(long, default_value_t = 0.8, value_name = "S")]
    rand_zipfian_exp: f64,
    /// zipfian: spread the hottest ids over the table (on) or keep them at its start, as sysbench does (off)
    #[arg(long, value_enum, default_value = "on", value_name = "on|off")]
    rand_zipfian_scramble: Switch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RandType {
    Uniform,
    Gaussian,
    Special,
    Pareto,
    Zipfian,
}

impl RandType {
    fn kind(self) -> RandomKind {
        match self {
            RandType::Uniform => RandomKind::Uniform,
            RandType::Gaussian => RandomKind::Gaussian,
            RandType::Special => RandomKind::Special,
            RandType::Pareto => RandomKind::Pareto,
            RandType::Zipfian => RandomKind::Zipfian,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Switch {
    On,
    Off,
}

impl RandomArgs {
    /// The seed, if one was given.
    pub(super) fn seed(&self) -> Option<u64> {
        Some(self.rand_seed).filter(|&seed| seed != 0)
    }

    pub(super) fn settings(&self) -> RandomSettings {
        RandomSettings {
            kind: self.rand_type.kind(),
            spec_iter: self.rand_spec_iter,
            spec_pct: self.rand_spec_pct,
            spec_res: self.rand_spec_res,
            pareto_h: self.rand_pareto_h,
            zipfian_exp: self.rand_zipfian_exp,
            zipfian_scramble: self.rand_zipfian_scramble == Switch::On,
        }
    }

    /// The distribution's name, as on the command line.
    pub(super) fn type_name(&self) -> String {
        self.rand_type.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum PsMode {
    /// Prepared statements, where the server can hold as many as are needed
    Auto,
    /// Text
    Disable,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Run")]
pub(super) struct RunArgs {
    /// Number of connections, each with a thread of its own; several, such as 1,8,64, are runs of an experiment
    #[arg(long, default_value = "1", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=100_000), value_name = "N,...")]
    pub(super) threads: Vec<u32>,
    /// Number of connections that are being opened at any moment before the run
    #[arg(long, default_value_t = CONNECT_CONCURRENCY, value_parser = clap::value_parser!(u32).range(1..), value_name = "N")]
    connect_concurrency: u32,
    /// Length of the measurement in seconds; 0 is no limit
    #[arg(long, default_value = "10", value_parser = parse_seconds, value_name = "SECONDS")]
    time: Duration,
    /// Number of transactions after which the run ends; 0 is no limit. Those in flight at the end of a warm-up come on top
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..EXACT), value_name = "N")]
    events: u64,
    /// Open loop: transactions a second, such as 1000 or 0.5, which are due whether the server keeps up or not; 0 is the
    /// closed loop, in which each connection begins its next transaction when the last one ended. Several are runs of an
    /// experiment
    #[arg(long, default_value = "0", value_delimiter = ',', value_parser = parse_rate, value_name = "N,...")]
    pub(super) rate: Vec<f64>,
    /// Open loop of several rates, one after another, such as 1000:30s,2000:30s; also sets --time
    #[arg(long, value_parser = parse_rate_step, value_delimiter = ',', value_name = "RATE:TIME,...")]
    rate_steps: Vec<(f64, Duration)>,
    /// Open loop: transactions are due at random, as sysbench's are, or at equal distances [default: poisson]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "poisson|constant")]
    arrival: Option<ArrivalName>,
    /// Open loop: begin transactions that are due while all connections are busy as soon as one is free, or skip those
    /// that are later than --max-lateness [default: queue]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "queue|shed")]
    overload: Option<Overload>,
    /// How late a transaction may begin before it is skipped, such as 100ms or 0.1
    #[arg(long, value_parser = parse_lateness, value_name = "TIME")]
    max_lateness: Option<Duration>,
    /// Seconds to run before measuring
    #[arg(long, default_value = "0", value_parser = parse_seconds, value_name = "SECONDS")]
    warmup_time: Duration,
    /// Seconds between interval lines, such as 10 or 0.5; 0 prints none
    #[arg(long, default_value = "0", value_parser = parse_interval, value_name = "SECONDS")]
    report_interval: Duration,
    /// Seconds between readings of the server's own counters, for a series in the JSON report [default: none]
    #[arg(long, value_parser = parse_server_interval, value_name = "SECONDS")]
    server_interval: Option<Duration>,
    /// Time each statement, BEGIN and COMMIT by itself, or transactions alone
    #[arg(long, value_enum, default_value = "on", hide_possible_values = true, value_name = "on|off")]
    detail: Switch,
    /// Percentiles to print; the interval lines show the 95th, or the last one given
    #[arg(long, default_value = "50,95,99,99.9", value_delimiter = ',', value_parser = parse_percentile, value_name = "LIST")]
    pub(super) percentile: Vec<f64>,
    /// Prepared statements or text
    #[arg(long, value_enum, default_value = "auto", value_name = "MODE")]
    pub(super) db_ps_mode: PsMode,
    /// How often a transaction is repeated after a deadlock, a lock timeout or a busy database
    #[arg(long, default_value_t = 10, value_name = "N")]
    max_retries: u32,
    /// Codes of errors that cost their transaction but are no failure, such as 1062,3024, or all
    #[arg(long, alias = "mysql-ignore-errors", default_value = "", hide_default_value = true, value_parser = parse_ignored_errors, value_name = "LIST")]
    ignore_errors: IgnoredErrors,
    /// Percentage of failed transactions above which the run stops, without those that a lost connection cost
    #[arg(long, default_value = "1", value_parser = parse_share, value_name = "PERCENT")]
    max_error_rate: f64,
    /// Codes of findings that make the exit code 3, such as unsteady,client-saturated; docs/findings.md lists them
    #[arg(long, value_delimiter = ',', value_parser = PossibleValuesParser::new(CODES), hide_possible_values = true, value_name = "LIST")]
    pub(super) fail_on: Vec<String>,
    /// Check each row that is read, and after the run all rows, against what `prepare` and this run's writes put there: on,
    /// off, or the SEED of `prepare --rand-seed`. It costs client CPU and memory
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "off", default_missing_value = "on", value_parser = parse_validate, value_name = "on|off|SEED")]
    pub(super) validate: Validate,
    /// Seconds to wait for transactions in flight once the time is over
    #[arg(long, default_value = "10", value_parser = parse_seconds, value_name = "SECONDS")]
    forced_shutdown: Duration,
    /// Seconds that the server may be silent in a statement, before its connection counts as lost [default: no limit]
    #[arg(long, value_parser = parse_timeout, value_name = "SECONDS")]
    pub(super) statement_timeout: Option<Duration>,
    /// Write the whole report to FILE as JSON
    #[arg(long, value_name = "FILE", value_parser = parse_json_file)]
    pub(super) json: Option<PathBuf>,
}

/// The seed of the tables of a run that validates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validate(pub(super) Option<u64>);

fn parse_validate(text: &str) -> Result<Validate, String> {
    match text {
        "off" => Ok(Validate(None)),
        "on" => Ok(Validate(Some(DATA_SEED))),
        seed => match seed.parse() {
            Ok(seed) if seed < EXACT => Ok(Validate(Some(seed))),
            _ => Err("use on, off, or the seed that prepare was given".into()),
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ArrivalName {
    Poisson,
    Constant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Overload {
    Queue,
    Shed,
}

/// So that a thousand logins do not hit the server at once.
pub(super) const CONNECT_CONCURRENCY: u32 = 32;

/// Length of the series' intervals when no interval lines are asked for.
const SERIES_INTERVAL: Duration = Duration::from_secs(1);

/// A managed server's failover takes a minute or two; one that is away for longer does not come back by itself.
pub(super) const LONGEST_OUTAGE: Duration = Duration::from_secs(180);

impl RunArgs {
    /// The run of one of the numbers of threads and one of the rates. `matches` tells what was given from what is a default.
    pub(super) fn spec(&self, threads: u32, rate: f64, seed: u64, matches: &ArgMatches) -> Result<RunSpec, CliError> {
        Ok(RunSpec {
            threads,
            time: self.length(matches)?,
            events: Some(self.events).filter(|&events| events > 0),
            open_loop: self.open_loop(rate)?,
            warmup_time: self.warmup_time,
            interval: if self.prints_intervals() { self.report_interval } else { SERIES_INTERVAL },
            server_interval: self.server_interval,
            detail: self.detail == Switch::On,
            seed,
            max_retries: self.max_retries,
            connect_concurrency: self.connect_concurrency,
            ignored_errors: self.ignore_errors.clone(),
            max_error_rate: self.max_error_rate,
            forced_shutdown: self.forced_shutdown,
            longest_outage: LONGEST_OUTAGE,
        })
    }

    /// Length of the window.
    fn length(&self, matches: &ArgMatches) -> Result<Option<Duration>, CliError> {
        if self.rate_steps.is_empty() {
            return Ok(Some(self.time).filter(|time| !time.is_zero()));
        }
        let sum = self.rate_steps.iter().map(|(_, length)| *length).sum();
        if matches.value_source("time") == Some(ValueSource::CommandLine) && self.time != sum {
            return Err(CliError::usage(format!(
                "--rate-steps last {} and --time is {}; leave --time out",
                humantime::format_duration(sum),
                humantime::format_duration(self.time)
            )));
        }
        Ok(Some(sum))
    }

    /// The most connections that any of the runs opens.
    pub(super) fn most_threads(&self) -> u32 {
        self.threads.iter().copied().max().unwrap_or(1)
    }

    fn open_loop(&self, rate: f64) -> Result<Option<OpenLoop>, CliError> {
        let refused = |message: &str| Err(CliError::usage(message));
        let is_closed = rate == 0.0 && self.rate_steps.is_empty();
        if is_closed && self.rate.iter().any(|&rate| rate > 0.0) {
            return Ok(None);
        }
        if is_closed {
            let useless = [
                ("--arrival", self.arrival.is_some()),
                ("--overload", self.overload.is_some()),
                ("--max-lateness", self.max_lateness.is_some()),
            ];
            return match useless.iter().find(|(_, given)| *given) {
                Some((name, _)) => refused(&format!("{name} is only for an open loop; give --rate, or leave it out")),
                None => Ok(None),
            };
        }
        if rate > 0.0 && !self.rate_steps.is_empty() {
            return refused("--rate and --rate-steps exclude each other; leave --rate out");
        }
        match (self.overload, self.max_lateness) {
            (Some(Overload::Shed), None) => return refused("--overload shed needs --max-lateness, such as 100ms"),
            (None | Some(Overload::Queue), Some(_)) => return refused("--max-lateness needs --overload shed"),
            _ => {}
        }
        let mut steps = vec![Step { start: Duration::ZERO, rate }];
        if !self.rate_steps.is_empty() {
            let mut start = Duration::ZERO;
            let step = |&(rate, length): &(f64, Duration)| {
                let step = Step { start, rate };
                start += length;
                step
            };
            steps = self.rate_steps.iter().map(step).collect();
        }
        let arrival = match self.arrival {
            None | Some(ArrivalName::Poisson) => Arrival::Poisson,
            Some(ArrivalName::Constant) => Arrival::Constant,
        };
        Ok(Some(OpenLoop { arrival, steps, max_lateness: self.max_lateness }))
    }

    pub(super) fn prints_intervals(&self) -> bool {
        !self.report_interval.is_zero()
    }

    /// The percentile of the interval lines.
    pub(super) fn interval_percentile(&self) -> f64 {
        if self.percentile.contains(&95.0) { 95.0 } else { self.percentile.last().copied().unwrap_or(95.0) }
    }
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds, such as 10 or 0.5".to_string())?;
    // A year; longer is a typing error, and keeps nanoseconds within 64 bits.
    if !(0.0..=31_536_000.0).contains(&seconds) {
        return Err("seconds must be between 0 and 31536000 (a year)".into());
    }
    // It would be rounded to 0, which has a meaning of its own, or be too short to measure anything.
    if seconds > 0.0 && seconds < 0.001 {
        return Err("seconds must be 0 or at least 0.001".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A time with a unit, or in seconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = parse_seconds(text) {
        return Ok(seconds);
    }
    let time = humantime::parse_duration(text).map_err(|_| "not a time, such as 30s, 100ms or 0.5".to_string())?;
    parse_seconds(&time.as_secs_f64().to_string())
}

/// Telling all of its counters costs a server about a millisecond.
fn parse_server_interval(text: &str) -> Result<Duration, String> {
    match parse_seconds(text)? {
        pace if pace < Duration::from_millis(100) => Err("must be at least 0.1 seconds".into()),
        pace => Ok(pace),
    }
}

fn parse_lateness(text: &str) -> Result<Duration, String> {
    parse_time(text).and_then(|time| if time.is_zero() { Err("must be above 0".into()) } else { Ok(time) })
}

fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number of transactions a second, such as 1000".to_string())?;
    match rate {
        0.0 => Ok(0.0),
        // Slower or faster is a typing error.
        _ if (0.001..=1e7).contains(&rate) => Ok(rate),
        _ => Err("a rate is between 0.001 and 10000000, or 0 for the closed loop".into()),
    }
}

fn parse_rate_step(text: &str) -> Result<(f64, Duration), String> {
    let (rate, time) = text.split_once(':').ok_or("a step is RATE:TIME, such as 1000:30s")?;
    match (parse_rate(rate.trim())?, parse_time(time.trim())?) {
        (rate, time) if rate > 0.0 && !time.is_zero() => Ok((rate, time)),
        _ => Err("a step has a rate and a time above 0".into()),
    }
}

fn parse_timeout(text: &str) -> Result<Duration, String> {
    parse_seconds(text).and_then(|timeout| if timeout.is_zero() { Err("must be above 0".into()) } else { Ok(timeout) })
}

fn parse_ignored_errors(text: &str) -> Result<IgnoredErrors, String> {
    if text == "all" {
        return Ok(IgnoredErrors::All);
    }
    let code = |text: &str| match text.trim().parse() {
        Ok(code) if ERROR_CODES.contains(&code) => Ok(code),
        _ => Err(format!("`{}` is no code; give those from 1 to {}, such as 1062,3024, or all", text.trim(), u16::MAX)),
    };
    match text {
        "" => Ok(IgnoredErrors::These(Vec::new())),
        list => list.split(',').map(code).collect::<Result<_, _>>().map(IgnoredErrors::These),
    }
}

/// MySQL's protocol has 16 bits for a code, and SQLite's are smaller.
const ERROR_CODES: std::ops::RangeInclusive<i64> = 1..=u16::MAX as i64;

fn parse_json_file(text: &str) -> Result<PathBuf, String> {
    match text {
        "-" | "" => Err("give a file, or /dev/stdout for standard output".into()),
        file => Ok(file.into()),
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    match parse_seconds(text)? {
        interval if !interval.is_zero() && interval < Duration::from_millis(10) => {
            Err("an interval is at least 0.01 seconds".into())
        }
        // Another one cannot be cut into the equal parts of which the errors of the figures are made.
        interval if interval.subsec_nanos() % 1_000_000 != 0 => {
            Err("an interval is a whole number of milliseconds, such as 10 or 0.5".into())
        }
        interval => Ok(interval),
    }
}

fn parse_percentile(text: &str) -> Result<f64, String> {
    let percentile: f64 = text.trim().parse().map_err(|_| "not a number, such as 99 or 99.9".to_string())?;
    if percentile > 0.0 && percentile <= 100.0 { Ok(percentile) } else { Err("must be above 0 and at most 100".into()) }
}

/// A percentage as a share of one.
pub(super) fn parse_share(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim();
    let percentage: f64 = number.parse().map_err(|_| "not a percentage, such as 1".to_string())?;
    if (0.0..=100.0).contains(&percentage) { Ok(percentage / 100.0) } else { Err("must be between 0 and 100".into()) }
}

/// Not below what intervals have by rounding alone.
fn parse_precision(text: &str) -> Result<f64, String> {
    match parse_share(text)? {
        share if (0.002..1.0).contains(&share) => Ok(share),
        _ => Err("give a percentage from 0.2 to below 100, such as 2%".into()),
    }
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Load")]
pub(super) struct LoadArgs {
    /// Number of connections that work at once
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=10_000), value_name = "N")]
    pub(super) threads: u32,
}

/// The workload and profile a command line chooses. They are found before the rest is read, since they decide which
/// options there are and what their defaults are.
pub(super) struct Choice {
    pub(super) workload: Workload,
    pub(super) profile: Option<&'static Profile>,
}

impl Choice {
    pub(super) fn of(args: &[String]) -> Result<Choice, CliError> {
        let name = match (value_of(args, "--workload"), value_of(args, "--mode")) {
            (Some(workload), _) if modes().iter().any(|(mode, _)| *mode == workload) => workload_of_mode(&workload)?,
            (Some(workload), _) => workload,
            (None, mode) => workload_of_mode(mode.as_deref().unwrap_or("read-only"))?,
        };
        let workload = Workload::load(&name).map_err(|error| CliError::usage(error.to_string()))?;
        let profile = match value_of(args, "--profile") {
            Some(_) if !workload.is_builtin() => {
                return Err(CliError::usage(format!(
                    "--profile is for built-in workloads, and {name} is a file of yours"
                )));
            }
            Some(profile) => Some(profile::find(&profile, workload.name())?),
            None => None,
        };
        Ok(Choice { workload, profile })
    }

    fn profile_value(&self, option: &str) -> Option<&'static str> {
        let values = self.profile?.values;
        values.iter().find(|(name, _)| *name == option).map(|(_, value)| *value)
    }

    /// Adds the workload's options to a command, and lets the profile change its defaults.
    pub(super) fn extend(&self, mut command: Command) -> Result<Command, CliError> {
        let heading = format!("Options of workload {}", self.workload.name());
        let fixed: Vec<String> = command.get_arguments().map(|arg| arg.get_id().to_string()).collect();
        for id in &fixed {
            // A profile's threads are those of a run; a load is as fast with a few.
            if id == "threads" && !matches!(command.get_name(), "run" | "check") {
                continue;
            }
            if let Some(value) = self.profile_value(&id.replace('_', "-")) {
                command = command.mut_arg(id, |arg| arg.default_value(value));
            }
        }
        command = command.next_help_heading(heading);
        for definition in self.workload.options() {
            let is_alias =
                |(theirs, _): &(&str, &str)| theirs.trim_start_matches('-').replace('-', "_") == definition.name;
            if fixed.contains(&definition.name)
                || SYSBENCH_ALIASES.iter().any(is_alias)
                || matches!(definition.name.as_str(), "help" | "version")
            {
                return Err(CliError::usage(format!(
                    "workload {} has an option `{}`, which oltpbench has itself; give it another name",
                    self.workload.name(),
                    definition.name
                )));
            }
            command = command.arg(self.option(definition));
        }
        // A negative number is a wrong value, not an unknown option.
        Ok(command.mut_args(|arg| match arg.get_action() {
            clap::ArgAction::SetTrue => arg,
            _ => arg.allow_negative_numbers(true),
        }))
    }

    fn option(&self, definition: &OptionDefinition) -> Arg {
        let long = definition.name.replace('_', "-");
        let default = self.profile_value(&long).map_or_else(|| definition.default.to_string(), str::to_string);
        let parser = definition.clone();
        let arg = Arg::new(knob_id(&definition.name))
            .long(long)
            .help(definition.help.clone())
            .default_value(default)
            .value_parser(move |text: &str| parser.parse(text));
        match &definition.default {
            // As in sysbench, a switch alone turns it on.
            OptionValue::Bool(_) => arg.value_name("on|off").num_args(0..=1).default_missing_value("on"),
            OptionValue::Int(_) => arg.value_name("N"),
            OptionValue::Text(_) => arg.value_name("TEXT"),
        }
    }

    /// What the workload is compiled with.
    pub(super) fn settings(&self, matches: &ArgMatches, threads: u32) -> Result<Settings, CliError> {
        let random = RandomArgs::from_arg_matches(matches).map_err(CliError::Clap)?;
        let mut options = BTreeMap::new();
        for definition in self.workload.options() {
            if let Some(value) = matches.get_one::<OptionValue>(&knob_id(&definition.name)) {
                options.insert(definition.name.clone(), value.clone());
            }
        }
        Ok(Settings { options, threads, random: random.settings() })
    }

    /// The workload's options with their values and where each came from. Those that only `prepare` looks at are among
    /// them if they were given: a run accepts them, as sysbench does, but takes the tables as they are.
    pub(super) fn reported_options(&self, matches: &ArgMatches) -> Vec<report::WorkloadOption> {
        let report = |definition: &OptionDefinition| {
            let id = knob_id(&definition.name);
            let value = matches.get_one::<OptionValue>(&id).unwrap_or(&definition.default);
            let source = match matches.value_source(&id) {
                Some(ValueSource::CommandLine) => "command line",
                _ if self.profile_value(&definition.name.replace('_', "-")).is_some() => "profile",
                _ => "default",
            };
            report::WorkloadOption {
                name: definition.name.clone(),
                value: value.to_string(),
                source: source.to_string(),
                of_prepare_only: !self.workload.matters_to_run(&definition.name),
            }
        };
        let options = self.workload.options().iter().map(report);
        options.filter(|option| !option.of_prepare_only || option.source == "command line").collect()
    }

    /// The profile, and what the command line changed of it in this run.
    pub(super) fn reported_profile(&self, matches: &ArgMatches, spec: &RunSpec) -> Option<report::Profile> {
        let profile = self.profile?;
        let value = |option: &str| match option {
            // Those that an experiment varies, and those that --rate-steps sets.
            "threads" => Some(spec.threads.to_string()),
            "time" => Some(spec.time.unwrap_or_default().as_secs_f64().to_string()),
            "rate" => {
                let steps = spec.open_loop.iter().flat_map(|open_loop| &open_loop.steps);
                let rates: Vec<String> = steps.map(|step| step.rate.to_string()).collect();
                Some(if rates.is_empty() { "0".to_string() } else { rates.join(", ") })
            }
            _ => given_value(matches, &option.replace('-', "_")),
        };
        let changed = profile.values.iter().filter_map(|(option, profile_value)| {
            let value = value(option).filter(|value| !is_same(value, profile_value))?;
            let (option, profile_value) = (option.replace('-', "_"), profile_value.to_string());
            Some(report::ProfileChange { option, value, profile_value })
        });
        Some(report::Profile { name: profile.name.to_string(), changed: changed.collect() })
    }
}

/// An option's value as text, whether it is one of the workload or one of the run.
fn given_value(matches: &ArgMatches, name: &str) -> Option<String> {
    // A switch has several spellings, such as `off` and `no`, so its value counts, not its text.
    let of_workload = matches.try_get_one::<OptionValue>(&knob_id(name)).ok().flatten();
    let of_run = || matches.try_get_raw(name).ok().flatten()?.next().map(|raw| raw.to_string_lossy().into_owned());
    of_workload.map(OptionValue::to_string).or_else(of_run)
}

/// Whether two texts have the same value: a number has several spellings.
fn is_same(a: &str, b: &str) -> bool {
    a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}

/// A workload's option has an id of its own, so that it cannot clash with a field of the fixed options.
fn knob_id(name: &str) -> String {
    format!("workload:{name}")
}

/// Makes `--table_size` into `--table-size`, in the name only.
pub(super) fn dashed(arg: String) -> String {
    match arg.strip_prefix("--") {
        Some(rest) => {
            let (name, value) = match rest.split_once('=') {
                Some((name, value)) => (name, format!("={value}")),
                None => (rest, String::new()),
            };
            format!("--{}{value}", name.replace('_', "-"))
        }
        None => arg,
    }
}

fn value_of(args: &[String], option: &str) -> Option<String> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.strip_prefix(option) {
            Some("") => return args.next().cloned(),
            Some(value) if value.starts_with('=') => return Some(value[1..].to_string()),
            _ => {}
        }
    }
    None
}

/// What a user of sysbench may look for under another name, and where it is.
const SYSBENCH_NAMES: [(&str, &str); 36] = [
    ("--num-threads", "use --threads"),
    ("--max-time", "use --time"),
    ("--max-requests", "use --events"),
    ("--oltp-tables-count", "use --tables"),
    ("--mysql-table-engine", "use --mysql-storage-engine"),
    ("--mysql-password", PASSWORD),
    ("--mysql-ssl", "use --ssl-mode"),
    ("--rand-init", "leave it out: ids are always random"),
    ("--db-driver", "leave it out: the --url says what is measured"),
    ("--test", "use --mode or --workload"),
    ("--oltp-read-only", "use --mode read-only"),
    ("--oltp-write-only", "use --mode write-only"),
    ("--histogram", "use --json, whose report holds the whole histogram"),
    ("--tx-rate", "use --rate"),
    ("--mysql-ssl-ca", "use --ssl-ca"),
    ("--mysql-ssl-cert", "use --ssl-cert"),
    ("--mysql-ssl-key", "use --ssl-key"),
    ("--mysql-compression", "use --compress zlib"),
    ("--mysql-compression-algorithms", "use --compress"),
    ("--mysql-dry-run", "use --url simulated:"),
    ("--config-file", "give its options on the command line"),
    ("--report-checkpoints", "use --json, whose report holds every interval"),
    ("--seed-rng", "use --rand-seed"),
    ("--init-rng", "use --rand-seed"),
    ("--oltp-dist-type", "use --rand-type"),
    ("--oltp-dist-iter", "use --rand-spec-iter"),
    ("--oltp-dist-pct", "use --rand-spec-pct"),
    ("--oltp-dist-res", "use --rand-spec-res"),
    ("--oltp-test-mode", "use --mode, and --skip-trx for nontrx"),
    ("--pgsql-host", NO_POSTGRES),
    ("--pgsql-port", NO_POSTGRES),
    ("--pgsql-user", NO_POSTGRES),
    ("--pgsql-password", NO_POSTGRES),
    ("--pgsql-db", NO_POSTGRES),
    ("--pgsql-sslmode", NO_POSTGRES),
    ("--reconnect", "leave it out: a connection is kept for as long as it works"),
];

const PASSWORD: &str = "use OLTPBENCH_PASSWORD, --password-file, --ask-password or --password-command";

const NO_POSTGRES: &str = "measure a MySQL-compatible database or SQLite: oltpbench knows no PostgreSQL";

/// sysbench's names that are accepted too, which a message of clap does not repeat.
const SYSBENCH_ALIASES: [(&str, &str); 6] = [
    ("--mysql-host", "--host"),
    ("--mysql-port", "--port"),
    ("--mysql-user", "--user"),
    ("--mysql-db", "--database"),
    ("--mysql-socket", "--socket"),
    ("--mysql-ignore-errors", "--ignore-errors"),
];

/// Advice on an option that is of sysbench and not of oltpbench, or for which clap would name another by its spelling.
fn advice_on_option(name: &str) -> Option<String> {
    match name {
        "--password" | "--pass" => return Some(format!("others would see it in the list of processes; {PASSWORD}")),
        "--db" | "--dbname" => return Some("use --database".into()),
        "--duration" => return Some("use --time".into()),
        "--interval" => return Some("use --report-interval".into()),
        _ => {}
    }
    if let Some((theirs, ours)) = SYSBENCH_NAMES.iter().find(|(theirs, _)| *theirs == name) {
        return Some(format!("instead of sysbench's {theirs}, {ours}"));
    }
    if let Some(option) = name.strip_prefix("--oltp-") {
        return Some(format!("instead of sysbench 0.5's {name}, use --{option}"));
    }
    let theirs = name.starts_with("--mysql-");
    theirs.then(|| format!("sysbench's {name} has no counterpart here; leave it out"))
}

/// Whether clap's message repeats what may be the end of a URL that was given without quotes, and so of a password.
pub(super) fn may_show_password(error: &clap::Error) -> bool {
    let strange = [ContextKind::InvalidArg, ContextKind::InvalidSubcommand].map(|kind| error.get(kind));
    let shown = strange.into_iter().flatten().map(ContextValue::to_string);
    shown.into_iter().any(|arg| !arg.starts_with("--") && arg.contains('@') && !arg.contains("://"))
}

/// Advice on a wrong command line beside what clap says, or an empty text.
pub(super) fn advice(args: &[String], error: &clap::Error) -> String {
    let alias = |arg: &String| {
        let name = arg.split('=').next().unwrap_or_default();
        SYSBENCH_ALIASES.iter().find(|(theirs, _)| *theirs == name)
    };
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (clap::error::ErrorKind::UnknownArgument, Some(ContextValue::String(option))) => {
            if let Some(advice) = advice_on_option(option) {
                return advice;
            }
        }
        (clap::error::ErrorKind::ArgumentConflict, _) => {
            if let Some((theirs, ours)) = args.iter().find_map(alias) {
                return format!("sysbench's {theirs} is called {ours} here");
            }
        }
        _ => {}
    }
    // An option's value may be a workload's name; only one that stands alone is in the wrong place.
    let alone = args.windows(2).find(|pair| {
        let (before, arg) = (&pair[0], &pair[1]);
        let is_mode = || modes().iter().any(|(mode, _)| mode == arg);
        !before.starts_with("--") && (Workload::builtin_source(arg).is_some() || is_mode())
    });
    match alone {
        Some(pair) => {
            let commands = ["prepare", "prewarm", "check", "run", "cleanup"];
            let command = args.iter().find(|arg| commands.contains(&arg.as_str())).map_or("run", String::as_str);
            format!("a workload is given by name: oltpbench {command} --workload {}", pair[1])
        }
        None => String::new(),
    }
}

/// The modes, and the workloads that they are short for.
fn modes() -> Vec<(String, String)> {
    let mode = |workload: &str| workload.strip_prefix("oltp_").unwrap_or(workload).replace('_', "-");
    Workload::builtin_names().into_iter().map(|workload| (mode(workload), workload.to_string())).collect()
}

fn mode_names() -> String {
    modes().into_iter().map(|(mode, _)| mode).collect::<Vec<_>>().join(", ")
}

fn mode_help() -> String {
    format!(
        "Short for a workload: read-only is oltp_read_only, and so on [default: read-only] [possible values: {}]",
        mode_names()
    )
}

fn workload_of_mode(mode: &str) -> Result<String, CliError> {
    let dashed = mode.replace('_', "-");
    let modes = modes();
    if let Some((_, workload)) = modes.iter().find(|(short, workload)| *short == dashed || workload == mode) {
        return Ok(workload.clone());
    }
    let nearest = nearest(&dashed, modes.iter().map(|(short, _)| short.as_str()));
    Err(CliError::usage(format!(
        "there is no mode `{mode}`{nearest}; modes: {}; own workloads go by --workload",
        mode_names()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn underscores_in_option_names_become_dashes_and_values_stay() {
        assert_eq!(dashed("--table_size=1_0".into()), "--table-size=1_0");
        assert_eq!(dashed("--skip_trx".into()), "--skip-trx");
        assert_eq!(dashed("oltp_read_only".into()), "oltp_read_only");
    }

    #[test]
    fn an_early_option_is_found_in_both_spellings() {
        let args = ["run", "--mode=read-write", "--profile", "x"].map(String::from);
        assert_eq!(value_of(&args, "--mode").as_deref(), Some("read-write"));
        assert_eq!(value_of(&args, "--profile").as_deref(), Some("x"));
        assert_eq!(value_of(&args, "--workload"), None);
    }

    #[test]
    fn an_unknown_mode_names_the_nearest() {
        let error = workload_of_mode("raed-only").unwrap_err().to_string();
        assert!(error.contains("did you mean `read-only`?"), "{error}");
        assert_eq!(workload_of_mode("read_write").unwrap(), "oltp_read_write");
    }

    #[test]
    fn wrong_numbers_are_refused_with_their_bounds() {
        assert!(parse_seconds("-1").unwrap_err().contains("between 0"));
        assert!(parse_seconds("soon").unwrap_err().contains("number of seconds"));
        assert!(parse_seconds("nan").is_err());
        for nothing in ["1e-300", "1e-10", "0.0009"] {
            assert!(parse_seconds(nothing).unwrap_err().contains("at least 0.001"));
            assert!(parse_interval(nothing).is_err());
        }
        assert_eq!(parse_seconds("0.001"), Ok(Duration::from_millis(1)));
        assert_eq!(parse_seconds("-0"), Ok(Duration::ZERO));
        assert!(parse_percentile("0").is_err() && parse_percentile("100.1").is_err());
        assert!(parse_interval("0.001").is_err());
        assert!(parse_interval("0.3333").unwrap_err().contains("whole number of milliseconds"));
        for whole in ["0.01", "0.07", "1.001", "86399.999"] {
            assert!(parse_interval(whole).is_ok(), "{whole}");
        }
        assert_eq!(parse_share("2.5%").unwrap(), 0.025);
    }
}
