//! Starts real database servers for the tests: each on a port, a data folder and a socket of its own.
//!
//! A server is ended by its own process id and its folder is removed when the [`Server`] is dropped. Should the test
//! process die without dropping it (a signal, or a `static`), a small guard process does both.
//!
//! Initialising a data folder takes seconds, so it is done once per server version, below `target/test-data`, and
//! copied for each server.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Seek, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a server may take to answer or to shut down; far more than on an idle machine, since tests run in parallel.
const PATIENCE: Duration = Duration::from_secs(90);

/// How often a start is tried when other programs keep taking the chosen port.
const START_TRIES: usize = 10;

/// Names how pristine data folders are made; a new number makes new ones after a change to that.
const RECIPE: u32 = 1;

/// MariaDB writes its redo log in full at the first start, so it is smaller than by default (96 MiB), and must be of
/// the same size in the pristine folder and later.
const MARIADB_LOG_SIZE: &str = "--innodb-log-file-size=32M";

/// Makes the tests' database and user. The user is named for each host because an account for a certain host wins
/// over `%`, and because neither server lets `%` alone cover both TCP and the socket in all set-ups.
const ACCOUNTS: &str = "\
CREATE DATABASE sbtest;
CREATE USER sysbench@'%' IDENTIFIED BY 'sysbench', sysbench@'127.0.0.1' IDENTIFIED BY 'sysbench', \
sysbench@localhost IDENTIFIED BY 'sysbench';
GRANT ALL ON sbtest.* TO sysbench@'%', sysbench@'127.0.0.1', sysbench@localhost;
";

/// A real server of the test's own.
pub struct Server {
    programs: Programs,
    extra_args: Vec<String>,
    folder: TempDir,
    port: u16,
    running: Option<Running>,
}

impl Server {
    /// Starts MariaDB with `extra_args` after the usual ones, so that they win.
    ///
    /// Without MariaDB on this machine it says so and returns `None`; with `CI=true` it panics.
    pub fn mariadb(extra_args: &[&str]) -> Option<Self> {
        Self::of_kind(Kind::MariaDb, extra_args)
    }

    /// Starts MySQL, as [`Server::mariadb`] does MariaDB.
    pub fn mysql(extra_args: &[&str]) -> Option<Self> {
        Self::of_kind(Kind::MySql, extra_args)
    }

    fn of_kind(kind: Kind, extra_args: &[&str]) -> Option<Self> {
        let Some(programs) = Programs::find(kind) else {
            let remedy = match kind {
                Kind::MariaDb => {
                    "MariaDB is not installed (run scripts/test as root, or apt-get install mariadb-server)"
                }
                Kind::MySql => "MySQL is not installed (run scripts/install-mysql)",
            };
            assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{remedy}");
            // Unlike eprintln!, this is not hidden by the test harness when the test passes.
            let _ = writeln!(io::stderr(), "SKIPPED: {remedy}");
            return None;
        };
        let folder = tempfile::Builder::new()
            .prefix(&format!("oltpbench-{}-", kind.name()))
            .tempdir()
            .expect("a temporary folder");
        fs::create_dir(folder.path().join("tmp")).expect("a folder for the server's temporary files");
        copy_folder(&programs.pristine_data(), &folder.path().join("data"));
        let extra_args = extra_args.iter().map(ToString::to_string).collect();
        let mut server = Self { programs, extra_args, folder, port: 0, running: None };
        server.start();
        Some(server)
    }

    /// Where the tests' database is found over TCP.
    pub fn url(&self) -> String {
        format!("mysql://sysbench:sysbench@127.0.0.1:{}/sbtest", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    /// The server's folder, with its data in `data` (where MySQL also keeps its certificates, such as `ca.pem`).
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The version that the program says, such as `10.11.6-MariaDB-0+deb12u1` or `9.7.4-2`.
    pub fn version(&self) -> &str {
        &self.programs.version
    }

    /// The process id, while the server runs.
    pub fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.server.id())
    }

    /// Runs statements as root over the socket and returns the rows of all results as text; a null is `NULL`.
    #[track_caller]
    pub fn sql(&self, statements: &str) -> Vec<Vec<String>> {
        match self.try_sql(statements) {
            Ok(rows) => rows,
            Err(error) => panic!("{statements}\nfailed: {error}"),
        }
    }

    /// Like [`Server::sql`], but returns what the server or the client said when it fails.
    pub fn try_sql(&self, statements: &str) -> Result<Vec<Vec<String>>, String> {
        // A file, not a pipe, because client and test would wait for each other when both pipes are full.
        let mut input = tempfile::tempfile().expect("a temporary file");
        input.write_all(statements.as_bytes()).expect("a written file");
        input.rewind().expect("a file to read");
        let output = self
            .client()
            .args(["--user=root", "--protocol=socket", "--batch", "--skip-column-names"])
            .arg("--default-character-set=utf8mb4")
            .arg(option("socket", &self.socket()))
            .stdin(input)
            .output()
            .expect("a client that runs");
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).trim().to_string());
        }
        let text = String::from_utf8(output.stdout).expect("UTF-8 from the client");
        Ok(text.lines().map(|line| line.split('\t').map(unescape).collect()).collect())
    }

    /// The command-line client that suits this server, with no user, host or socket given yet.
    pub fn client(&self) -> Command {
        let mut command = Command::new(&self.programs.client);
        if self.programs.kind == Kind::MariaDb {
            command.arg("--no-defaults");
        }
        command
    }

    /// The values of global status variables, under the names asked for.
    ///
    /// Asking changes no count of selects, so a test may compare two answers exactly.
    #[track_caller]
    pub fn status(&self, names: &[&str]) -> BTreeMap<String, u64> {
        let rows = match &self.programs.admin {
            None => self.sql("SHOW GLOBAL STATUS"),
            Some(admin) => self.status_by_admin(admin),
        };
        let value = |name: &&str| {
            let row = rows.iter().find(|row| row[0].eq_ignore_ascii_case(name));
            let text = &row.unwrap_or_else(|| panic!("no status variable {name}"))[1];
            (name.to_string(), text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
        };
        names.iter().map(value).collect()
    }

    /// All status variables by `mysqladmin`, since the client `mysql` sends a select of its own (`select $$`) each time
    /// it connects.
    #[track_caller]
    fn status_by_admin(&self, admin: &Path) -> Vec<Vec<String>> {
        let mut command = Command::new(admin);
        command.args(["--user=root", "--protocol=socket", "extended-status"]).arg(option("socket", &self.socket()));
        let output = command.output().expect("mysqladmin that runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let table = String::from_utf8(output.stdout).expect("UTF-8 from mysqladmin");
        let rows = table.lines().filter(|line| line.starts_with('|'));
        rows.map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_string()).collect()).collect()
    }

    /// What the general log holds, for a server started with `--general-log` or told so since.
    pub fn general_log(&self) -> String {
        read_lossy(&self.folder.path().join("general.log"))
    }

    /// What the server has written to its error log.
    pub fn error_log(&self) -> String {
        read_lossy(&self.folder.path().join("error.log"))
    }

    /// Ends the server at once, as a crash does; [`Server::restart`] brings it back.
    pub fn kill(&mut self) {
        if let Some(running) = self.running.take() {
            running.end();
        }
    }

    /// Shuts the server down in order.
    #[track_caller]
    pub fn stop(&mut self) {
        if self.running.is_none() {
            return;
        }
        self.signal("TERM");
        let deadline = Instant::now() + PATIENCE;
        while !self.has_exited() {
            assert!(Instant::now() < deadline, "no shutdown in {PATIENCE:?}; {}", self.log_tail());
            sleep(Duration::from_millis(20));
        }
        self.kill();
    }

    /// Shuts the server down, if it runs, and starts it again on the same port and data.
    #[track_caller]
    pub fn restart(&mut self) {
        self.stop();
        self.start();
    }

    /// Freezes the server, which looks like a network that lets nothing through.
    #[track_caller]
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets a frozen server run on.
    #[track_caller]
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// Starts the server on its port, or at the first start on any free one.
    #[track_caller]
    fn start(&mut self) {
        let first = self.port == 0;
        for _ in 0..START_TRIES {
            if first {
                self.port = free_port();
            }
            match self.try_start() {
                Ok(()) => return,
                // Between the look for a free port and the server's start, another program may take it.
                Err(error) if error.contains("Address already in use") => sleep(Duration::from_millis(200)),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("no port to be had in {START_TRIES} tries; {}", self.log_tail());
    }

    fn try_start(&mut self) -> Result<(), String> {
        // What a killed server left behind would pass for the new one's.
        for left in ["socket", "socket.lock", "pid", "error.log"] {
            let _ = fs::remove_file(self.folder.path().join(left));
        }
        self.running = Some(Running::spawn(self.server_command(), self.folder.path()));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let exited = self.has_exited();
            if !exited && self.socket().exists() && self.try_sql("SELECT 1").is_ok() {
                return Ok(());
            }
            if exited || Instant::now() > deadline {
                self.kill();
                let what = if exited { "ended at its start".to_string() } else { format!("silent for {PATIENCE:?}") };
                return Err(format!("{} {what}; {}", self.programs.kind.name(), self.log_tail()));
            }
            sleep(Duration::from_millis(20));
        }
    }

    fn server_command(&self) -> Command {
        let folder = self.folder.path();
        let mut command = self.programs.server_command();
        command
            .arg(option("datadir", &folder.join("data")))
            .arg(option("tmpdir", &folder.join("tmp")))
            .arg(option("socket", &self.socket()))
            .arg(option("pid-file", &folder.join("pid")))
            .arg(option("general-log-file", &folder.join("general.log")))
            .arg(format!("--port={}", self.port))
            .args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--max-connections=1200"])
            // Small enough for several servers at once, and quick: no test asks what survives a power cut.
            .args(["--innodb-buffer-pool-size=128M", "--innodb-flush-log-at-trx-commit=2", "--skip-log-bin"]);
        if self.programs.kind == Kind::MySql {
            // It takes hundreds of megabytes, and few tests ask it anything; `--performance-schema=ON` brings it back.
            command.arg("--performance-schema=OFF");
        }
        command.args(&self.extra_args);
        command
    }

    fn has_exited(&mut self) -> bool {
        let status = self.running.as_mut().map(|running| running.server.try_wait());
        !matches!(status, Some(Ok(None)))
    }

    /// Sends a signal by its name. The shell does it, because std sends none but SIGKILL.
    #[track_caller]
    fn signal(&self, name: &str) {
        let pid = self.pid().expect("a running server");
        let status = shell(&format!("kill -{name} {pid}")).status().expect("a shell");
        assert!(status.success(), "cannot send {name} to {pid}");
    }

    fn log_tail(&self) -> String {
        tail(&self.error_log())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // In order or not does not matter, since the data goes too.
        self.kill();
    }
}

/// A server process and the guard that ends it should this process die.
struct Running {
    server: Child,
    guard: Child,
}

impl Running {
    fn spawn(mut command: Command, folder: &Path) -> Self {
        let log = File::create(folder.join("error.log")).expect("an error log");
        let server = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            // Its own group, so that Ctrl-C ends the tests first and the guard then sees to the server.
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {:?}: {error}", command.get_program()));
        // The guard's input ends when this process does, however that comes about. The server gets a moment to be gone
        // before its folder is removed.
        let guard = shell(r#"read -r _; kill -KILL "$1"; sleep 0.5; rm -rf "$2""#)
            .arg("guard")
            .arg(server.id().to_string())
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("a shell");
        Self { server, guard }
    }

    /// Ends both; the guard first, since the server's id may name another process as soon as it is waited for.
    fn end(mut self) -> Option<ExitStatus> {
        let _ = self.guard.kill();
        let _ = self.guard.wait();
        let _ = self.server.kill();
        self.server.wait().ok()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    MariaDb,
    MySql,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
        }
    }
}

/// The programs of one kind of server on this machine.
struct Programs {
    kind: Kind,
    server: PathBuf,
    client: PathBuf,
    /// MySQL's program for status and the like; see [`Server::status_by_admin`].
    admin: Option<PathBuf>,
    version: String,
}

impl Programs {
    fn find(kind: Kind) -> Option<Self> {
        let (server, client, admin) = match kind {
            Kind::MariaDb => {
                find_in_path("mariadb-install-db")?;
                (find_in_path("mariadbd")?, find_in_path("mariadb")?, None)
            }
            Kind::MySql => {
                // The folder that scripts/install-mysql fills by default; the variable names another.
                let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/mysql");
                let prefix = env::var_os("OLTPBENCH_TEST_MYSQL").map_or(default, PathBuf::from);
                let admin = executable(prefix.join("mysqladmin"))?;
                (executable(prefix.join("mysqld"))?, executable(prefix.join("mysql"))?, Some(admin))
            }
        };
        let output = Command::new(&server).arg("--version").output().expect("a server that runs");
        let text = String::from_utf8_lossy(&output.stdout);
        let mut words = text.split_whitespace().skip_while(|word| *word != "Ver").skip(1);
        let version = words.next().unwrap_or_else(|| panic!("no version in {text:?}")).to_string();
        Some(Self { kind, server, client, admin, version })
    }

    /// The server's program with what the first initialisation and each later start have in common.
    fn server_command(&self) -> Command {
        let mut command = Command::new(&self.server);
        if self.kind == Kind::MariaDb {
            command.args(["--no-defaults", MARIADB_LOG_SIZE]);
        }
        // Several servers at once may use up what the kernel grants in asynchronous requests.
        command.arg("--innodb-use-native-aio=OFF");
        if is_root() {
            command.arg("--user=root");
        }
        command
    }

    /// A data folder, made at the first call on this machine, that no server has run on yet.
    fn pristine_data(&self) -> PathBuf {
        // One maker in this process; other processes may make their own at the same time.
        static MAKING: Mutex<()> = Mutex::new(());
        let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target folder");
        let name = format!("{}-{}-{RECIPE}", self.kind.name(), self.version.replace('/', "_"));
        let home = target.join("test-data");
        let pristine = home.join(&name);
        if pristine.exists() {
            return pristine;
        }
        fs::create_dir_all(&home).expect("a folder for pristine data");
        let side =
            tempfile::Builder::new().prefix(&format!("{name}.partial-")).tempdir_in(&home).expect("a side folder");
        let data = side.path().join("data");
        self.initialise(&data, &side.path().join("accounts.sql"));
        if let Err(error) = fs::rename(&data, &pristine) {
            // Another process was first, and its folder is as good.
            assert!(pristine.exists(), "cannot make {}: {error}", pristine.display());
        }
        pristine
    }

    fn initialise(&self, data: &Path, accounts: &Path) {
        let mut command = match self.kind {
            Kind::MariaDb => {
                // Its bootstrap knows no accounts until told to read them.
                fs::write(accounts, format!("FLUSH PRIVILEGES;\n{ACCOUNTS}")).expect("a file of statements");
                let mut command = Command::new("mariadb-install-db");
                command.args(["--no-defaults", MARIADB_LOG_SIZE, "--innodb-use-native-aio=OFF"]);
                command.args(["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]);
                // Without it the program refuses a machine whose host name has no address.
                command.arg("--force").arg(option("extra-file", accounts));
                if is_root() {
                    command.arg("--user=root");
                }
                command
            }
            Kind::MySql => {
                fs::write(accounts, ACCOUNTS).expect("a file of statements");
                let mut command = self.server_command();
                command.arg("--initialize-insecure").arg(option("init-file", accounts));
                command
            }
        };
        let output = command.arg(option("datadir", data)).output().expect("a program that initialises data folders");
        let said = [output.stdout, output.stderr].concat();
        assert!(
            output.status.success(),
            "cannot initialise {}: {}; {}",
            self.kind.name(),
            output.status,
            tail(&String::from_utf8_lossy(&said))
        );
    }
}

/// `--name=path`, for paths of any bytes.
fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut text = std::ffi::OsString::from(format!("--{name}="));
    text.push(path);
    text
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script);
    command
}

/// Looks in the PATH, and where Debian keeps servers, which only root has in its PATH.
fn find_in_path(program: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/local/sbin", "/usr/sbin"].map(PathBuf::from);
    env::split_paths(&path).chain(more).find_map(|folder| executable(folder.join(program)))
}

fn executable(path: PathBuf) -> Option<PathBuf> {
    let found = fs::metadata(&path).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0);
    found.then_some(path)
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

/// A port that nothing listens on. It lies below those that Linux hands out to clients, so that no client's connection
/// can take it while its server restarts.
fn free_port() -> u16 {
    loop {
        let random = RandomState::new().build_hasher().finish();
        let port = 20_000 + u16::try_from(random % 12_000).expect("a small number");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}

/// Copies a folder with `cp`, which keeps holes and shares blocks where the file system can.
fn copy_folder(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp");
    assert!(status.success(), "cannot copy {} to {}", from.display(), to.display());
}

fn read_lossy(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// The last lines of a log, with a heading.
fn tail(log: &str) -> String {
    let lines: Vec<_> = log.lines().collect();
    format!("its log ends:\n{}", lines[lines.len().saturating_sub(20)..].join("\n"))
}

/// Undoes what the clients' batch mode does to tabs, line ends, zero bytes and backslashes.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        match letters.next() {
            Some('t') => plain.push('\t'),
            Some('n') => plain.push('\n'),
            Some('0') => plain.push('\0'),
            Some(other) => plain.push(other),
            None => plain.push('\\'),
        }
    }
    plain
}
