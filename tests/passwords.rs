//! Where passwords come from: a command that prints them, a prompt, the environment. None of them may be seen anywhere.

mod support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, tcgetattr};
use support::Server;
use support::program::{count, fail, oltpbench, report_of, text};
use tempfile::TempDir;

const SMALL: [&str; 4] = ["--tables", "4", "--table-size", "1000"];
const PATIENCE: Duration = Duration::from_secs(60);

/// A server, with a user `tester` whose password is in a file, and a command that prints it and notes that it was run.
struct Rotating {
    server: Server,
    folder: TempDir,
}

impl Rotating {
    fn new() -> Option<Rotating> {
        let rotating = Rotating { server: Server::mariadb(&[])?, folder: tempfile::tempdir().unwrap() };
        rotating.server.sql("CREATE USER tester@'%'; GRANT ALL ON sbtest.* TO tester@'%'");
        rotating.rotate("hunter2");
        Some(rotating)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Gives the user another password, which the command prints from now on.
    fn rotate(&self, password: &str) {
        fs::write(self.path("new"), format!("{password}\n")).unwrap();
        self.server.sql(&format!("ALTER USER tester@'%' IDENTIFIED BY '{password}'"));
        fs::rename(self.path("new"), self.path("password")).unwrap();
    }

    fn command(&self) -> String {
        let (runs, password) = (self.path("runs"), self.path("password"));
        // The comment stands for a secret on the command line.
        format!("echo run >> {}; cat {} # secret-argument", runs.display(), password.display())
    }

    /// How often the command ran since the last time.
    fn runs(&self) -> usize {
        let runs = fs::read_to_string(self.path("runs")).unwrap_or_default();
        let _ = fs::remove_file(self.path("runs"));
        runs.lines().count()
    }

    fn program(&self, arguments: &[&str], rest: &[&str]) -> Command {
        let url = format!("mysql://tester@127.0.0.1:{}/sbtest", self.server.port());
        oltpbench(&[arguments, &["--url", &url, "--password-command", &self.command()], &SMALL, rest].concat())
    }

    #[track_caller]
    fn succeed(&self, arguments: &[&str], rest: &[&str]) -> Output {
        let output = self.program(arguments, rest).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_silent(&output);
        output
    }
}

/// No secret is in what was printed.
#[track_caller]
fn assert_silent(output: &Output) {
    for said in [text(&output.stdout), text(&output.stderr)] {
        assert!(!said.contains("hunter") && !said.contains("secret-argument"), "{said}");
    }
}

#[test]
fn a_command_prints_the_password_of_all_connections_and_is_run_once() {
    let Some(rotating) = Rotating::new() else { return };
    rotating.succeed(&["prepare", "--threads", "4"], &[]);
    assert_eq!(rotating.runs(), 1);
    for command in ["prewarm", "check"] {
        rotating.succeed(&[command], &[]);
        assert_eq!(rotating.runs(), 1, "{command}");
    }
    let (run, output) = report_of(rotating.program(&["run", "--threads", "4", "--time", "0", "--events", "20"], &[]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(rotating.runs(), 1);
    assert_eq!(run["target"]["password_command"], true);
    assert_silent(&output);
    assert!(text(&output.stdout).contains("by --password-command"));
    let document = run.to_string();
    assert!(!document.contains("hunter") && !document.contains("secret-argument"), "{document}");
}

#[test]
fn with_no_time_to_live_each_connection_runs_the_command() {
    let Some(rotating) = Rotating::new() else { return };
    rotating.succeed(&["prepare"], &[]);
    assert_eq!(rotating.runs(), 1);
    let once = |threads: &str| {
        let arguments = ["run", "--threads", threads, "--time", "0", "--events", "9"];
        rotating.succeed(&arguments, &["--password-ttl", "0"]);
        rotating.runs()
    };
    assert_eq!(once("5"), once("1") + 4);
}

#[test]
fn a_password_that_is_changed_in_the_middle_of_a_run_is_asked_for_again() {
    let Some(rotating) = Rotating::new() else { return };
    rotating.succeed(&["prepare"], &[]);
    rotating.runs();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.json");
    let mut program = rotating.program(&["run", "--threads", "8", "--time", "5", "--report-interval", "0.2"], &[]);
    let mut child = program.arg("--json").arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    // A password as new as the connections would be taken for a wrong one.
    sleep(Duration::from_millis(1500));
    rotating.rotate("hunter3");
    let sessions = "SELECT id FROM information_schema.processlist WHERE user = 'tester'";
    for session in rotating.server.sql(sessions).into_iter().flatten() {
        // The one that reads the counters is among them, and may have ended by itself.
        let _ = rotating.server.try_sql(&format!("KILL {session}"));
    }
    let output = child.wait_with_output().unwrap();
    let run = support::program::document(&file, &output);
    assert_silent(&output);
    assert_eq!(count(&run, "totals.reconnects"), 8, "{}", run["totals"]);
    let errors = run["totals"]["errors"].as_array().unwrap();
    assert!(errors.iter().all(|error| error["statement"] != "connect"), "{errors:?}");
    assert_eq!(rotating.runs(), 2);
}

#[test]
fn a_command_that_fails_is_reported_in_one_line_before_anything_connects() {
    // Nobody listens there.
    let run = |command: &str, rest: &[&str]| {
        let arguments = ["run", "--url", "mysql://127.0.0.1:1/sbtest", "--password-command", command];
        fail(1, &[&arguments[..], rest].concat())
    };
    for (command, said) in [
        ("false hunter2", "the --password-command failed (exit status: 1)"),
        ("true hunter2", "the --password-command printed nothing"),
        ("printf '\\377hunter2'", "the --password-command printed no UTF-8"),
        ("yes hunter2", "the --password-command printed more than 16384 bytes"),
    ] {
        let message = run(command, &[]);
        assert!(message.contains(said) && !message.contains("hunter2"), "{message}");
        assert_eq!(message.trim_end().lines().count(), 1, "{message}");
    }
    let message = run("sleep 1000", &["--connect-timeout", "0.5"]);
    assert!(message.contains("the --password-command did not end within 0.5 s"), "{message}");
    let message = run("echo what-is-wrong >&2; exit 7", &[]);
    assert!(message.starts_with("what-is-wrong\n"), "{message}");
    let message = run("echo right", &[]);
    assert!(message.contains("no server answers"), "{message}");
}

#[test]
fn a_wrong_password_is_not_asked_for_twice() {
    let Some(rotating) = Rotating::new() else { return };
    rotating.server.sql("ALTER USER tester@'%' IDENTIFIED BY 'other'");
    let output = rotating.program(&["run"], &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("with what --password-command prints"), "{}", text(&output.stderr));
    assert_silent(&output);
    assert_eq!(rotating.runs(), 1);
}

#[test]
fn one_ctrl_c_ends_the_wait_for_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let command = format!("echo $$ > {0}.new; mv {0}.new {0}; sleep 1000", pid.display());
    for name in ["prepare", "run"] {
        let arguments = [name, "--url", "mysql://127.0.0.1:1/d", "--password-command", &command];
        let child = oltpbench(&arguments).stderr(Stdio::piped()).spawn().unwrap();
        wait_until(|| pid.exists());
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        let shell = fs::read_to_string(&pid).unwrap();
        assert!(!PathBuf::from("/proc").join(shell.trim()).exists(), "the command still runs");
        fs::remove_file(&pid).unwrap();
    }
}

#[test]
fn a_command_is_the_only_source_of_a_password() {
    let refused = |rest: &[&str], said: &str| {
        let message = fail(2, &[&["run", "--password-command", "echo hunter2"], rest].concat());
        assert!(message.contains(said) && !message.contains("hunter"), "{message}");
    };
    refused(&["--url", "mysql://u:hunter3@h/d"], "there is a password in the URL");
    refused(&["--host", "h", "--ask-password"], "--ask-password");
    refused(&["--host", "h", "--password-file", "/dev/null"], "--password-file");
    refused(&["--url", "sqlite:x"], "--password-command is only for mysql:// targets");
    let message = fail(2, &["run", "--host", "h", "--password-command", " "]);
    assert!(message.contains("--password-command is empty"), "{message}");
    let message = fail(2, &["run", "--host", "h", "--password-ttl", "1"]);
    assert!(message.contains("--password-command"), "{message}");
    let mut program = oltpbench(&["run", "--host", "h", "--password-command", "echo hunter2"]);
    let output = program.env("OLTPBENCH_PASSWORD", "hunter3").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("there is a password in OLTPBENCH_PASSWORD"), "{}", text(&output.stderr));
    assert_silent(&output);
}

#[test]
fn variables_that_are_not_utf8_are_refused() {
    use std::os::unix::ffi::OsStrExt;
    let value = std::ffi::OsStr::from_bytes(b"mysql://hunter2\xff");
    for (name, arguments) in [("OLTPBENCH_URL", &["run"][..]), ("OLTPBENCH_PASSWORD", &["run", "--host", "h"])] {
        let output = oltpbench(arguments).env(name, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert_eq!(text(&output.stderr), format!("error: {name} is not UTF-8; set it anew or unset it\n"));
        assert_silent(&output);
    }
}

fn wait_until(mut reached: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !reached() {
        assert!(Instant::now() < deadline, "nothing in {PATIENCE:?}");
        sleep(Duration::from_millis(5));
    }
}

/// A terminal whose program waits at the prompt for a password.
struct Terminal {
    controller: File,
    program: Child,
}

impl Terminal {
    fn asking() -> Terminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = PathBuf::from(ptsname(&controller, Vec::new()).unwrap().into_string().unwrap());
        let terminal = || File::options().read(true).write(true).open(&name).unwrap();
        // A terminal of its own must be given to a session of its own.
        let program = Command::new("setsid")
            .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_oltpbench"), "run", "--host", "127.0.0.1"])
            .args(["--port", "1", "--ask-password"])
            .env_remove("OLTPBENCH_URL")
            .env_remove("OLTPBENCH_PASSWORD")
            .stdin(terminal())
            .stdout(terminal())
            .stderr(terminal())
            .spawn()
            .expect("setsid of util-linux");
        let echoes = || tcgetattr(&controller).unwrap().local_modes.contains(LocalModes::ECHO);
        wait_until(|| !echoes());
        Terminal { controller: controller.into(), program }
    }

    /// Types, and gives the program's exit code and what the terminal showed.
    fn answer(mut self, keys: &[u8]) -> (Option<i32>, String) {
        self.controller.write_all(keys).unwrap();
        let mut shown = Vec::new();
        // Once the last program has left it, reading fails.
        let _ = self.controller.read_to_end(&mut shown);
        (self.program.wait().unwrap().code(), text(&shown))
    }
}

#[test]
fn a_prompt_does_not_show_the_password_and_ends_with_ctrl_c() {
    let (code, shown) = Terminal::asking().answer(b"hunter2\n");
    assert!(shown.contains("Password of sbtest: ") && shown.contains("no server answers"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(code, Some(1));

    // Ctrl-\, which would leave the terminal without echo, ends nothing.
    let (code, shown) = Terminal::asking().answer(b"hunt\x1c\x03");
    assert_eq!(code, Some(130), "{shown}");
    assert!(shown.contains("interrupted") && !shown.contains("hunt"), "{shown}");
}
