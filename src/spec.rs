//! What is run against what, as plain values: the target's address and the run's settings.
//!
//! Invariant: a password lives only in a [`Secret`], which has no way to be printed or serialised by accident.
//! A leaf: must not import any other module of the crate.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use url::Url;

/// A password or token. Its `Debug` shows nothing, and it implements neither `Display` nor `Serialize`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The secret itself, for the one place that hands it to a server.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// What is percent-encoded in the user and the database of a URL.
const ENCODED: &percent_encoding::AsciiSet =
    &percent_encoding::NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Whether a MySQL connection is encrypted; the names are those of the `mysql` client's --ssl-mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SslMode {
    #[default]
    Disabled,
    Preferred,
    Required,
    /// Required, and the server's certificate is of a trusted authority.
    VerifyCa,
    /// The same, and it is for the host that was asked for.
    VerifyIdentity,
}

impl SslMode {
    const ALL: [SslMode; 5] =
        [SslMode::Disabled, SslMode::Preferred, SslMode::Required, SslMode::VerifyCa, SslMode::VerifyIdentity];
    pub const NAMES: [&'static str; 5] = ["disabled", "preferred", "required", "verify-ca", "verify-identity"];

    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    pub fn parse(text: &str) -> Option<SslMode> {
        // MySQL's own names have an underscore.
        let name = text.to_ascii_lowercase().replace('_', "-");
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }

    /// Whether the server's certificate is looked at.
    pub fn verifies(self) -> bool {
        matches!(self, SslMode::VerifyCa | SslMode::VerifyIdentity)
    }
}

/// How the bytes of a MySQL connection are compressed; the names are those of the `mysql` client's
/// --compression-algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Zlib,
    Zstd,
}

impl Algorithm {
    pub const ALL: [Algorithm; 2] = [Algorithm::Zlib, Algorithm::Zstd];

    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Zlib => "zlib",
            Algorithm::Zstd => "zstd",
        }
    }
}

/// A program that prints the password, for `sh -c`. What it is called with may be a secret itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PasswordCommand {
    pub command: Secret,
    /// How long what it printed is used for new connections.
    pub ttl: Duration,
}

/// An SQL statement up to what it has in quotes, which may be a password.
pub fn without_literals(sql: &str) -> String {
    match sql.find(['\'', '"']) {
        Some(quote) => format!("{}'...'", &sql[..quote]),
        None => sql.to_string(),
    }
}

/// What TLS trusts and shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SslFiles {
    /// Certificates of the trusted authorities, in PEM; those of the platform if it is not given.
    pub ca: Option<PathBuf>,
    /// Certificate and key of the client, in PEM.
    pub client: Option<(PathBuf, PathBuf)>,
    /// What the server's certificate must be for, in place of its host name.
    pub server_name: Option<String>,
}

/// Where a MySQL or MariaDB server is, and how to connect to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MySqlAddress {
    pub host: String,
    pub port: u16,
    /// A Unix socket; when given, host and port are not used.
    pub socket: Option<PathBuf>,
    pub user: String,
    pub password: Option<Secret>,
    /// In place of a password.
    pub password_command: Option<PasswordCommand>,
    pub database: String,
    pub ssl_mode: SslMode,
    pub ssl: SslFiles,
    /// Whether a server that asks for the password as it is gets it even where others may listen.
    pub cleartext_allowed: bool,
    /// How connections are compressed; an algorithm that the server does not offer is an error.
    pub compression: Option<Algorithm>,
    /// A server that does not complete a connection in this time counts as not there.
    pub connect_timeout: Duration,
    /// How long the server may be silent in the middle of a statement of a session; `None` is no limit.
    pub statement_timeout: Option<Duration>,
    /// Statements that each connection begins with.
    pub init_sql: Vec<String>,
}

impl Default for MySqlAddress {
    /// sysbench's defaults: user and database `sbtest` on localhost:3306.
    fn default() -> Self {
        MySqlAddress {
            host: "localhost".into(),
            port: 3306,
            socket: None,
            user: "sbtest".into(),
            password: None,
            password_command: None,
            database: "sbtest".into(),
            ssl_mode: SslMode::Disabled,
            ssl: SslFiles::default(),
            cleartext_allowed: false,
            compression: None,
            connect_timeout: Duration::from_secs(10),
            statement_timeout: None,
            init_sql: Vec::new(),
        }
    }
}

/// How the simulated target behaves: each statement takes `service_time`, and one stall holds everything up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Simulation {
    pub service_time: Duration,
    /// A stall, counted from the first statement: when it begins and how long it lasts.
    pub stall: Option<(Duration, Duration)>,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetAddress {
    Sqlite(PathBuf),
    MySql(Box<MySqlAddress>),
    Simulated(Simulation),
}

/// A target URL that cannot be used. No message repeats the URL, since it may hold a password.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SpecError {
    #[error(
        "the target URL is not a URL ({0}); use mysql://USER@HOST:3306/DATABASE, sqlite:FILE or simulated:?service-time=1ms"
    )]
    NotAUrl(String),
    #[error("the target URL's scheme is `{0}`; oltpbench measures mysql://, sqlite: and simulated:")]
    Scheme(String),
    #[error("the target URL has an unknown parameter `{name}`; {scheme} takes {known}")]
    Parameter { scheme: &'static str, name: String, known: &'static str },
    #[error("the target URL has the parameter `{0}` more than once; give it once")]
    Repeated(String),
    #[error("the target URL's `{name}` is `{value}`, which is not {wanted}")]
    Value { name: &'static str, value: String, wanted: &'static str },
    #[error("the target URL has an `@` or `#` where none belongs; write such characters of a password as %40 and %23")]
    Encoding,
    #[error("a sqlite: URL needs a file that all connections share, such as sqlite:oltpbench.sqlite")]
    NoFile,
    #[error("a sqlite: URL is `sqlite:` and the file's path, without `file:` before it or `?` and parameters after it")]
    SqliteUri,
    #[error(
        "a sqlite: URL has no user, password or host, only a file's path, and a file's name without `:` before an `@`"
    )]
    SqliteLogin,
    #[error("the target URL has stall-at without stall-for; give both, such as stall-at=2s&stall-for=500ms")]
    StallWithoutLength,
}

impl TargetAddress {
    /// Parses `mysql://user:password@host:port/database?socket=PATH&ssl-mode=MODE`, `sqlite:PATH` or
    /// `simulated:?service-time=1ms&stall-at=2s&stall-for=500ms`. `mariadb://` is the same as `mysql://`.
    pub fn parse(text: &str) -> Result<TargetAddress, SpecError> {
        if let Some((scheme, path)) = text.split_once(':')
            && scheme.eq_ignore_ascii_case("sqlite")
        {
            return parse_sqlite(path).map(TargetAddress::Sqlite);
        }
        let url = Url::parse(text).map_err(|error| SpecError::NotAUrl(error.to_string()))?;
        match url.scheme() {
            "mysql" | "mariadb" => parse_mysql(&url).map(|address| TargetAddress::MySql(Box::new(address))),
            "simulated" => parse_simulated(&url).map(TargetAddress::Simulated),
            other => Err(SpecError::Scheme(other.into())),
        }
    }

    /// The address without its password, for output and reports.
    pub fn redacted(&self) -> String {
        match self {
            TargetAddress::Sqlite(path) => format!("sqlite:{}", path.display()),
            TargetAddress::MySql(address) => address.redacted(),
            TargetAddress::Simulated(simulation) => {
                let mut text =
                    format!("simulated:?service-time={}", humantime::format_duration(simulation.service_time));
                if let Some((at, length)) = simulation.stall {
                    text += &format!(
                        "&stall-at={}&stall-for={}",
                        humantime::format_duration(at),
                        humantime::format_duration(length)
                    );
                }
                text
            }
        }
    }
}

/// SQLite's own URIs are refused: read as a path they would make a file of a strange name, and `:memory:` is a database of
/// its own for each connection.
fn parse_sqlite(path: &str) -> Result<PathBuf, SpecError> {
    let path = path.strip_prefix("//").unwrap_or(path);
    match path {
        "" => Err(SpecError::NoFile),
        _ if path.contains(":memory:") => Err(SpecError::NoFile),
        _ if path.split_once('@').is_some_and(|(login, _)| login.contains(':')) => Err(SpecError::SqliteLogin),
        _ if path.starts_with("file:") || path.contains('?') => Err(SpecError::SqliteUri),
        _ => Ok(path.into()),
    }
}

impl MySqlAddress {
    fn redacted(&self) -> String {
        let encoded = |text: &str| percent_encoding::utf8_percent_encode(text, ENCODED).to_string();
        let (user, database) = (encoded(&self.user), encoded(&self.database));
        let ssl = match self.ssl_mode {
            SslMode::Disabled => String::new(),
            mode => format!("ssl-mode={}", mode.name()),
        };
        match &self.socket {
            Some(socket) => {
                let separator = if ssl.is_empty() { "" } else { "&" };
                format!("mysql://{user}@localhost/{database}?socket={}{separator}{ssl}", socket.display())
            }
            None => {
                let question = if ssl.is_empty() { "" } else { "?" };
                let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
                format!("mysql://{user}@{host}:{}/{database}{question}{ssl}", self.port)
            }
        }
    }
}

fn parse_mysql(url: &Url) -> Result<MySqlAddress, SpecError> {
    // Else what was meant as the host would be a database on this machine.
    if !url.has_authority() {
        return Err(SpecError::NotAUrl("`//` is missing after its scheme".into()));
    }
    if url.fragment().is_some() || url.path().contains('@') || url.query().is_some_and(|query| query.contains('@')) {
        return Err(SpecError::Encoding);
    }
    let mut address = MySqlAddress::default();
    if let Some(host) = url.host_str().filter(|host| !host.is_empty()) {
        address.host = without_brackets(&decode("host", host)?);
    }
    if let Some(port) = url.port() {
        address.port = port;
    }
    if !url.username().is_empty() {
        address.user = decode("user", url.username())?;
    }
    if let Some(password) = url.password() {
        address.password = Some(Secret::new(decode("password", password)?));
    }
    let database = decode("database", url.path().trim_start_matches('/'))?;
    if !database.is_empty() {
        address.database = database;
    }
    refuse_repeated(url)?;
    for (name, value) in url.query_pairs() {
        match name.as_ref() {
            "socket" if value.is_empty() => {
                return Err(SpecError::Value {
                    name: "socket",
                    value: String::new(),
                    wanted: "the path of a Unix socket",
                });
            }
            "socket" => address.socket = Some(PathBuf::from(value.into_owned())),
            "ssl-mode" => {
                address.ssl_mode = SslMode::parse(&value).ok_or(SpecError::Value {
                    name: "ssl-mode",
                    value: value.into_owned(),
                    wanted: "disabled, preferred, required, verify-ca or verify-identity",
                })?;
            }
            other => {
                return Err(SpecError::Parameter {
                    scheme: "mysql://",
                    name: other.into(),
                    known: "socket and ssl-mode",
                });
            }
        }
    }
    Ok(address)
}

/// Of a parameter that is given twice nobody knows which one counts.
fn refuse_repeated(url: &Url) -> Result<(), SpecError> {
    let mut seen = BTreeSet::new();
    match url.query_pairs().find(|(name, _)| !seen.insert(name.to_string())) {
        Some((name, _)) => Err(SpecError::Repeated(name.into_owned())),
        None => Ok(()),
    }
}

/// An IPv6 address stands in brackets in a URL, and without them everywhere else.
pub fn without_brackets(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_string()
}

/// Undoes percent-encoding. The message of an error does not repeat the text, which may be a password.
fn decode(name: &'static str, text: &str) -> Result<String, SpecError> {
    let decoded = percent_encoding::percent_decode_str(text).decode_utf8();
    decoded.map(|text| text.into_owned()).map_err(|_| SpecError::Value {
        name,
        value: "...".into(),
        wanted: "UTF-8 once its %XX codes are decoded",
    })
}

/// What is longer is a typing error, and could not be added to a clock's time.
const LONGEST_SIMULATED: Duration = Duration::from_secs(31_536_000);

fn parse_simulated(url: &Url) -> Result<Simulation, SpecError> {
    let mut simulation = Simulation::default();
    let (mut stall_at, mut stall_for) = (None, None);
    refuse_repeated(url)?;
    for (name, value) in url.query_pairs() {
        let duration = |name| {
            let duration = humantime::parse_duration(&value).ok().filter(|&duration| duration <= LONGEST_SIMULATED);
            duration.ok_or_else(|| SpecError::Value {
                name,
                value: value.clone().into_owned(),
                wanted: "a duration such as 500us, 1ms or 2s, and at most a year",
            })
        };
        match name.as_ref() {
            "service-time" => simulation.service_time = duration("service-time")?,
            "stall-at" => stall_at = Some(duration("stall-at")?),
            "stall-for" => stall_for = Some(duration("stall-for")?),
            other => {
                return Err(SpecError::Parameter {
                    scheme: "simulated:",
                    name: other.into(),
                    known: "service-time, stall-at and stall-for",
                });
            }
        }
    }
    simulation.stall = match (stall_at, stall_for) {
        (Some(_), None) => return Err(SpecError::StallWithoutLength),
        (at, length) => length.map(|length| (at.unwrap_or_default(), length)),
    };
    Ok(simulation)
}

/// How statements reach the server; sysbench's --db-ps-mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Prepared,
    Text,
}

impl Protocol {
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Prepared => "prepared",
            Protocol::Text => "text",
        }
    }
}

/// Errors that cost their transaction and count as no failure, by the server's codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IgnoredErrors {
    These(Vec<i64>),
    All,
}

/// As on the command line.
impl std::fmt::Display for IgnoredErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            IgnoredErrors::These(codes) => f.write_str(&codes.iter().map(i64::to_string).collect::<Vec<_>>().join(",")),
            IgnoredErrors::All => f.write_str("all"),
        }
    }
}

impl IgnoredErrors {
    pub fn contain(&self, code: i64) -> bool {
        match self {
            IgnoredErrors::These(codes) => codes.contains(&code),
            IgnoredErrors::All => true,
        }
    }
}

/// How the times at which transactions are due lie around their rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// At equal distances.
    Constant,
    /// At random and independent of each other, as many users make them: a Poisson process.
    Poisson,
}

impl Arrival {
    pub fn name(self) -> &'static str {
        match self {
            Arrival::Constant => "constant",
            Arrival::Poisson => "poisson",
        }
    }
}

/// Transactions a second from some time after the window's start on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    pub start: Duration,
    pub rate: f64,
}

/// An open loop: transactions are due by a schedule, whether the server keeps up or not.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoop {
    pub arrival: Arrival,
    /// In the order of their starts, the first of which is 0; its rate holds in the warm-up, too.
    pub steps: Vec<Step>,
    /// A transaction that would begin later than this after it was due is skipped and counted; `None` begins it however
    /// late it is.
    pub max_lateness: Option<Duration>,
}

/// How one measurement is run.
#[derive(Clone, Debug)]
pub struct RunSpec {
    pub threads: u32,
    /// Length of the measured window; `None` runs until `events` are done or the user stops it.
    pub time: Option<Duration>,
    /// Number of transactions after which the run ends.
    pub events: Option<u64>,
    /// `None` is the closed loop: each connection begins its next transaction when the last one ended.
    pub open_loop: Option<OpenLoop>,
    pub warmup_time: Duration,
    /// Length of an interval of the series.
    pub interval: Duration,
    /// How often the server's counters are read inside the window; `None` reads them at its ends alone.
    pub server_interval: Option<Duration>,
    /// Whether each statement is timed, or transactions alone.
    pub detail: bool,
    pub seed: u64,
    pub max_retries: u32,
    /// How many connections are opened at once.
    pub connect_concurrency: u32,
    pub ignored_errors: IgnoredErrors,
    /// Share of failed transactions, from 0 to 1, above which the run stops.
    pub max_error_rate: f64,
    /// How long transactions still in flight at the end of the window are waited for.
    pub forced_shutdown: Duration,
    /// How long a run goes on without a single connection.
    pub longest_outage: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mysql(text: &str) -> MySqlAddress {
        match TargetAddress::parse(text) {
            Ok(TargetAddress::MySql(address)) => *address,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_full_mysql_url_is_taken_apart() {
        let address = mysql("mysql://bench:p%40ss%2Fword@db.example:3307/shop?ssl-mode=required");
        assert_eq!(address.host, "db.example");
        assert_eq!(address.port, 3307);
        assert_eq!(address.user, "bench");
        assert_eq!(address.password.unwrap().reveal(), "p@ss/word");
        assert_eq!(address.database, "shop");
        assert_eq!(address.ssl_mode, SslMode::Required);
    }

    #[test]
    fn what_a_url_leaves_out_is_sysbench_default() {
        let address = mysql("mysql://10.0.0.5");
        assert_eq!((address.port, address.user.as_str(), address.database.as_str()), (3306, "sbtest", "sbtest"));
        assert_eq!(mysql("mysql://u@[::1]/d").host, "::1");
        assert_eq!(mysql("mysql:///d?socket=/run/mysqld.sock").socket, Some("/run/mysqld.sock".into()));
    }

    #[test]
    fn a_scheme_may_be_written_in_capitals() {
        assert_eq!(TargetAddress::parse("SQLite:A.sqlite"), Ok(TargetAddress::Sqlite("A.sqlite".into())));
        assert_eq!(TargetAddress::parse("sqlite:///tmp/a"), Ok(TargetAddress::Sqlite("/tmp/a".into())));
        assert_eq!(mysql("MYSQL://h/d").host, "h");
    }

    #[test]
    fn no_way_of_printing_an_address_shows_its_password() {
        for url in ["mysql://u:hunter2@h/d", "mysql://u:hunter2@localhost/d?socket=/s"] {
            let target = TargetAddress::parse(url).unwrap();
            assert!(!format!("{target:?}").contains("hunter2"));
            assert!(!target.redacted().contains("hunter2"));
        }
    }

    #[test]
    fn a_redacted_address_parses_to_the_same_place() {
        for url in [
            "mysql://u@h:3306/d",
            "mysql://u@h:1/d?ssl-mode=verify-identity",
            "mysql://u%40x@[::1]:3306/d%20e",
            "mysql://u@localhost/d?socket=/tmp/s&ssl-mode=preferred",
            "sqlite:a/b.sqlite",
            "simulated:?service-time=1ms&stall-at=2s&stall-for=500ms",
        ] {
            let target = TargetAddress::parse(url).unwrap();
            assert_eq!(TargetAddress::parse(&target.redacted()).unwrap(), target, "{url}");
        }
    }

    #[test]
    fn a_wrong_url_says_what_is_accepted_and_never_repeats_a_password() {
        for (url, part) in [
            ("postgres://u:hunter2@h/d", "scheme is `postgres`"),
            ("mysql:u:hunter2@h/d", "`//` is missing"),
            ("mysql:/h/d", "`//` is missing"),
            ("mysql://u:hunter2@ss/w#x@h/d", "%40"),
            ("mysql://u:p@hunter2/x@h/d", "%40"),
            ("mysql://u:hunter2@h/d?sslmode=x", "unknown parameter `sslmode`"),
            ("mysql://u:hunter2@h:99999/d", "not a URL"),
            ("mysql://u:hunter2%FF@h/d", "UTF-8"),
            ("mysql://h/d?ssl-mode=maybe", "disabled, preferred, required, verify-ca or verify-identity"),
            ("mysql://u:hunter2@h/d?socket=", "path of a Unix socket"),
            ("mysql://h/d?ssl-mode=required&ssl-mode=disabled", "`ssl-mode` more than once"),
            ("mysql://h/d?ssl-mode=required&ssl-mode=required", "`ssl-mode` more than once"),
            ("mysql://h/d?socket=/a&socket=/b", "`socket` more than once"),
            ("sqlite:", "needs a file"),
            ("sqlite::memory:", "needs a file"),
            ("sqlite://:memory:", "needs a file"),
            ("SQLITE::memory:", "needs a file"),
            ("sqlite:file::memory:", "needs a file"),
            ("sqlite:file::memory:?cache=shared", "needs a file"),
            ("sqlite:file:a.sqlite", "the file's path"),
            ("sqlite://u:hunter2@h/d", "no user, password or host"),
            ("sqlite:a.sqlite?mode=rwc", "the file's path"),
            ("simulated:?service-time=fast", "a duration such as"),
            ("simulated:?stall-at=600000000000y&stall-for=1s", "at most a year"),
            ("simulated:?stall-at=1s", "stall-for"),
            ("simulated:?service-time=1ms&service-time=2ms", "`service-time` more than once"),
            ("nonsense", "not a URL"),
        ] {
            let message = TargetAddress::parse(url).unwrap_err().to_string();
            assert!(message.contains(part), "{url}: {message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
    }
}
