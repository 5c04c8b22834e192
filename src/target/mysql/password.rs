//! The password of a connection: one that was given, or what a command prints, which is run again when that is too old.
//!
//! Invariants: one process runs at a time, whatever the number of connections that wait for it, and no lock is held
//! while it does; neither what it prints nor anything of the command gets into a message.
//!
//! Must not import: anything of the protocol.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::spec::{MySqlAddress, PasswordCommand, Secret};
use crate::target::{Fault, FaultClass, interruption};

/// Tokens of cloud providers have up to a few thousand bytes.
const LONGEST_BYTES: usize = 16 << 10;
/// How often a wait looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);
/// A password that is used so soon after it was printed had no time to expire or be changed: if it is refused it was
/// never right, and a new one would not be either.
const NEW: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, thiserror::Error)]
enum CommandError {
    #[error("could not be run: {0}")]
    Start(Arc<io::Error>),
    #[error("failed ({0}); what it wrote to its standard error is above")]
    Failed(ExitStatus),
    #[error("printed nothing on its standard output; it must print the password")]
    Empty,
    #[error("printed no UTF-8; it must print the password and nothing else")]
    NoText,
    #[error("printed more than {LONGEST_BYTES} bytes; it must print the password and nothing else")]
    TooLong,
    #[error("did not end within {} s; it is given no input, so it must not ask, or raise --connect-timeout", .0.as_secs_f64())]
    Slow(Duration),
    #[error("was interrupted")]
    Interrupted,
}

/// Where the connections to an address have their password from.
pub enum Passwords {
    Given(Option<Secret>),
    Printed(Printer),
}

impl Passwords {
    pub fn of(address: &MySqlAddress) -> Passwords {
        match &address.password_command {
            None => Passwords::Given(address.password.clone()),
            Some(command) => Passwords::Printed(Printer::new(command.clone(), address.connect_timeout)),
        }
    }

    /// Makes an attempt to log in with the password. If that is refused though the password was not new when the attempt
    /// began, it may have expired or been changed: another attempt is made with a new one, if a command prints one. Once
    /// `interrupted` is set nothing is waited for any more.
    pub fn log_in<R>(
        &self,
        interrupted: Option<&AtomicBool>,
        is_refusal: impl Fn(&Fault) -> bool,
        mut attempt: impl FnMut(Option<&Secret>) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let printer = match self {
            Passwords::Given(password) => return attempt(password.as_ref()),
            Passwords::Printed(printer) => printer,
        };
        let used = printer.password(None, interrupted)?;
        // Taken here, since the attempt itself may be slow.
        let was_new = used.printed_at.elapsed() <= NEW;
        match attempt(Some(&used.password)) {
            Err(fault) if is_refusal(&fault) && !was_new => {
                let new = printer.password(Some(used.run), interrupted)?;
                attempt(Some(&new.password))
            }
            done => done,
        }
    }
}

/// A command, with what it printed last.
pub struct Printer {
    command: PasswordCommand,
    timeout: Duration,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// Whether somebody waits for the command.
    running: bool,
    /// How often it has ended.
    runs: u64,
    last: Option<Result<Printed, CommandError>>,
}

#[derive(Clone)]
struct Printed {
    password: Secret,
    /// When the command began, since what it prints may count its own time from then.
    asked_at: Instant,
    printed_at: Instant,
    run: u64,
}

impl Printer {
    fn new(command: PasswordCommand, timeout: Duration) -> Printer {
        Printer { command, timeout, state: Mutex::default(), ended: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No state is left half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was printed last, if it is young enough and not of the run that was `refused`; else what a new run prints.
    fn password(&self, refused: Option<u64>, interrupted: Option<&AtomicBool>) -> Result<Printed, Fault> {
        let runs = self.state().runs;
        self.password_since(runs, refused, interrupted)
    }

    /// The same for one who asked after so many `runs`. Who waited for a run has what came of it, however long it took;
    /// with no time to live, only an error.
    fn password_since(
        &self,
        runs: u64,
        refused: Option<u64>,
        interrupted: Option<&AtomicBool>,
    ) -> Result<Printed, Fault> {
        let is_interrupted = || interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed));
        let ttl = self.command.ttl;
        let mut state = self.state();
        loop {
            if is_interrupted() {
                return Err(interruption());
            }
            let waited_for = runs < state.runs;
            match &state.last {
                Some(Ok(printed))
                    if Some(printed.run) != refused
                        && (printed.asked_at.elapsed() < ttl || waited_for && !ttl.is_zero()) =>
                {
                    return Ok(printed.clone());
                }
                Some(Err(error)) if waited_for => return Err(self.fault(error.clone())),
                _ if !state.running => break,
                _ => {}
            }
            state = self.ended.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.running = true;
        drop(state);
        let run = Running { printer: self };
        let asked_at = Instant::now();
        let printed = print(self.command.command.reveal(), asked_at + self.timeout, self.timeout, &is_interrupted);
        run.end(printed, asked_at).map_err(|error| self.fault(error))
    }

    fn fault(&self, error: CommandError) -> Fault {
        if matches!(error, CommandError::Interrupted) {
            return interruption();
        }
        Fault {
            class: FaultClass::ConnectionLost,
            code: 0,
            sqlstate: String::new(),
            message: format!("the --password-command {error}"),
        }
    }
}

/// Whoever runs the command; the others are woken when it is done, whatever the way.
struct Running<'a> {
    printer: &'a Printer,
}

impl Running<'_> {
    fn end(self, printed: Result<Secret, CommandError>, asked_at: Instant) -> Result<Printed, CommandError> {
        let mut state = self.printer.state();
        let run = state.runs + 1;
        let printed = printed.map(|password| Printed { password, asked_at, printed_at: Instant::now(), run });
        // One who does not want to wait any more says nothing of the command.
        if !matches!(printed, Err(CommandError::Interrupted)) {
            state.runs = run;
            state.last = Some(printed.clone());
        }
        printed
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.printer.state().running = false;
        self.printer.ended.notify_all();
    }
}

/// A process with all that it started. It does not outlive its use, but may outlive the program: one that exits while a
/// worker waits for a command leaves both behind.
struct Group {
    child: Child,
    ended: bool,
}

impl Group {
    fn has_ended(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.ended |= status.is_some();
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Once it was waited for, its id may be another's.
        if !self.ended {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

/// Runs a command for its standard output. Its standard error is that of the program.
fn print(
    command: &str,
    deadline: Instant,
    timeout: Duration,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<Secret, CommandError> {
    let failed = |error: io::Error| CommandError::Start(Arc::new(error));
    let child = Command::new("sh")
        .args(["-c", command])
        // It would ask in the middle of a run.
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // So that all of it can be ended.
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let mut group = Group { child, ended: false };
    let printed = read_beside(&mut group.child).map_err(failed)?;
    let mut bytes = None;
    loop {
        if is_interrupted() {
            return Err(CommandError::Interrupted);
        }
        if Instant::now() >= deadline {
            return Err(CommandError::Slow(timeout));
        }
        match &bytes {
            None => match printed.recv_timeout(LOOK) {
                Ok(Ok(all)) if all.len() > LONGEST_BYTES => return Err(CommandError::TooLong),
                Ok(all) => bytes = Some(all.map_err(failed)?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(failed(io::ErrorKind::BrokenPipe.into())),
            },
            Some(_) => match group.has_ended().map_err(failed)? {
                None => std::thread::sleep(Duration::from_millis(1)),
                Some(status) if status.success() => break,
                Some(status) => return Err(CommandError::Failed(status)),
            },
        }
    }
    let mut bytes = bytes.unwrap_or_default();
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    match String::from_utf8(bytes) {
        Ok(password) if password.is_empty() => Err(CommandError::Empty),
        Ok(password) => Ok(Secret::new(password)),
        Err(_) => Err(CommandError::NoText),
    }
}

/// Reads all that a process prints, and a byte more than it may, on a thread of its own: a process that hangs would keep
/// whoever reads.
fn read_beside(child: &mut Child) -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
    let (sender, receiver) = mpsc::channel();
    let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    std::thread::Builder::new().name("password-command".into()).spawn(move || {
        let mut bytes = Vec::new();
        let read = output.take(LONGEST_BYTES as u64 + 1).read_to_end(&mut bytes);
        // Nobody may be there any more to whom it matters.
        let _ = sender.send(read.map(|_| bytes));
    })?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn printer(command: &str, ttl: Duration, timeout: Duration) -> Printer {
        Printer::new(PasswordCommand { command: Secret::new(command), ttl }, timeout)
    }

    const LONG: Duration = Duration::from_secs(60);

    fn wait_until(reached: impl Fn() -> bool) {
        let deadline = Instant::now() + LONG;
        while !reached() {
            assert!(Instant::now() < deadline, "nothing in {LONG:?}");
            std::thread::sleep(LOOK);
        }
    }

    /// A command that prints how often it was run.
    fn counting(folder: &tempfile::TempDir) -> String {
        let file = folder.path().join("runs");
        format!("echo >> {0}; wc -l < {0}", file.display())
    }

    #[test]
    fn what_a_command_prints_is_the_password_without_its_line_end() {
        for (command, password) in [("echo secret", "secret"), ("printf ' a b\\n\\n'", " a b\n"), ("printf ü", "ü")] {
            let printed = printer(command, LONG, LONG).password(None, None).unwrap();
            assert_eq!(printed.password.reveal(), password);
        }
    }

    #[test]
    fn what_goes_wrong_is_said_without_the_output_and_the_command() {
        for (command, said) in [
            ("echo hunter2; exit 3", "the --password-command failed (exit status: 3)"),
            ("hunter2 2>/dev/null", "failed (exit status: 127)"),
            ("kill -9 $$ hunter2", "failed (signal: 9"),
            ("true hunter2", "printed nothing"),
            ("printf '\\377hunter2'", "printed no UTF-8"),
            ("yes hunter2", "printed more than 16384 bytes"),
        ] {
            let message = printer(command, LONG, LONG).password(None, None).err().unwrap().message;
            assert!(message.contains(said) && !message.contains("hunter2"), "{message}");
        }
    }

    #[test]
    fn a_command_that_is_given_up_is_ended_with_all_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        // The second one has its output elsewhere, and would live on.
        let command = format!("sleep 1000 >/dev/null & echo $! > {0}.new; mv {0}.new {0}; sleep 1000", file.display());
        let interrupted = AtomicBool::new(false);
        let fault = std::thread::scope(|scope| {
            let printer = printer(&command, LONG, LONG);
            let interrupted = &interrupted;
            let wait = scope.spawn(move || printer.password(None, Some(interrupted)));
            wait_until(|| file.exists());
            interrupted.store(true, Ordering::Relaxed);
            wait.join().unwrap().err().unwrap()
        });
        assert_eq!(fault.class, FaultClass::Interrupted);
        let pid = std::fs::read_to_string(file).unwrap();
        // It is gone, or a zombie that nobody waits for.
        let stat = PathBuf::from("/proc").join(pid.trim()).join("stat");
        wait_until(|| std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z ")));
    }

    #[test]
    fn a_command_that_takes_too_long_is_said_to() {
        let error = printer("sleep 1000", LONG, Duration::from_millis(500)).password(None, None).err().unwrap();
        assert!(error.message.contains("did not end within 0.5 s"), "{}", error.message);
    }

    #[test]
    fn a_wait_ends_when_it_is_interrupted() {
        let printer = printer("sleep 1000", LONG, LONG);
        let interrupted = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let waiting = [(); 3].map(|()| scope.spawn(|| printer.password(None, Some(&interrupted))));
            std::thread::sleep(LOOK);
            interrupted.store(true, Ordering::Relaxed);
            for wait in waiting {
                assert_eq!(wait.join().unwrap().err().unwrap().class, FaultClass::Interrupted);
            }
        });
    }

    #[test]
    fn one_run_serves_all_who_wait_for_it_and_a_refusal_costs_one_more() {
        let folder = tempfile::tempdir().unwrap();
        let printer = printer(&format!("sleep 0.1; {}", counting(&folder)), LONG, LONG);
        let all = |refused: Option<u64>| {
            std::thread::scope(|scope| {
                let waiting: Vec<_> = (0..500).map(|_| scope.spawn(|| printer.password(refused, None))).collect();
                let printed = waiting.into_iter().map(|wait| wait.join().unwrap().unwrap());
                printed.map(|printed| printed.password.reveal().trim().to_string()).collect::<Vec<_>>()
            })
        };
        assert_eq!(all(None), vec!["1"; 500]);
        assert_eq!(all(None), vec!["1"; 500]);
        assert_eq!(all(Some(1)), vec!["2"; 500]);
        assert_eq!(all(Some(1)), vec!["2"; 500]);
    }

    /// What many get that ask before the first run, whenever each of them comes to look.
    fn asked_before_the_first_run(printer: &Printer) -> Vec<Result<Printed, Fault>> {
        std::thread::scope(|scope| {
            let waiting: Vec<_> = (0..20).map(|_| scope.spawn(|| printer.password_since(0, None, None))).collect();
            waiting.into_iter().map(|wait| wait.join().unwrap()).collect()
        })
    }

    #[test]
    fn a_failure_is_told_to_all_who_waited_and_the_next_one_runs_it_again() {
        let printer = printer("false", LONG, LONG);
        assert!(asked_before_the_first_run(&printer).iter().all(Result::is_err));
        assert_eq!(printer.state().runs, 1);
        assert!(printer.password(None, None).is_err());
        assert_eq!(printer.state().runs, 2);
    }

    #[test]
    fn all_who_waited_take_what_is_too_old_once_printed_unless_it_has_no_time_to_live() {
        let runs = |ttl: Duration| {
            let printed = asked_before_the_first_run(&printer("echo secret", ttl, LONG));
            let mut runs: Vec<u64> = printed.into_iter().map(|printed| printed.unwrap().run).collect();
            runs.sort();
            runs
        };
        assert_eq!(runs(Duration::from_nanos(1)), [1; 20]);
        assert_eq!(runs(Duration::ZERO), Vec::from_iter(1..=20));
    }

    #[test]
    fn a_new_password_that_is_refused_slowly_is_not_asked_for_again() {
        let passwords = Passwords::Printed(printer("echo secret", LONG, LONG));
        let mut attempts = 0;
        let done = passwords.log_in(
            None,
            |_| true,
            |_| {
                attempts += 1;
                std::thread::sleep(NEW + LOOK);
                Err::<(), _>(interruption())
            },
        );
        assert!(done.is_err());
        assert_eq!(attempts, 1);
    }

    #[test]
    fn a_password_is_used_for_its_time_to_live() {
        let folder = tempfile::tempdir().unwrap();
        let printer = printer(&counting(&folder), Duration::ZERO, LONG);
        for run in 1..4 {
            assert_eq!(printer.password(None, None).unwrap().run, run);
        }
    }
}
