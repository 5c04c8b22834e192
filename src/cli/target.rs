//! Where to measure, as the command line and the environment say: URLs or their parts, passwords, TLS and sessions.
//!
//! Invariant: a password never becomes part of a message. clap's types go no further than here.

use std::cell::OnceCell;
use std::convert::Infallible;
use std::env::VarError;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::CliError;
use super::options::{parse_seconds, parse_timeout};
use crate::spec::{
    Algorithm, MySqlAddress, PasswordCommand, Secret, SslFiles, SslMode, TargetAddress, without_brackets,
};

/// The file that is measured when no target is given.
pub(super) const DEFAULT_SQLITE: &str = "oltpbench.sqlite";

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
pub(super) fn parse_named_url(text: &str) -> Result<NamedUrl, Infallible> {
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
