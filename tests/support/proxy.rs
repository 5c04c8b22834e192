//! A proxy in front of the tests' servers.

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Where a program is; without it on this machine it says so, and with `CI=true` it panics.
pub fn installed(program: &str) -> Option<PathBuf> {
    let folders = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin";
    let found = std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file());
    if found.is_none() {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{program} is not installed");
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

/// haproxy in front of a server; it closes what is idle for a second.
pub struct Proxy {
    process: Child,
    program: PathBuf,
    port: u16,
    folder: tempfile::TempDir,
}

impl Proxy {
    pub fn start(program: &Path, server: u16) -> Proxy {
        let folder = tempfile::tempdir().unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let configuration = format!(
            "defaults\n  mode tcp\n  timeout connect 5s\n  timeout client 1s\n  timeout server 1s\n\
             listen database\n  bind 127.0.0.1:{port}\n  server database 127.0.0.1:{server}\n"
        );
        std::fs::write(folder.path().join("haproxy.cfg"), configuration).unwrap();
        let process = Proxy::spawn(program, &folder);
        let mut proxy = Proxy { process, program: program.into(), port, folder };
        proxy.wait();
        proxy
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    fn spawn(program: &Path, folder: &tempfile::TempDir) -> Child {
        let file = folder.path().join("haproxy.cfg");
        std::process::Command::new(program).arg("-f").arg(file).stderr(Stdio::null()).spawn().unwrap()
    }

    fn wait(&mut self) {
        while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(self.process.try_wait().unwrap().is_none(), "haproxy could not listen on port {}", self.port);
            sleep(Duration::from_millis(10));
        }
    }

    /// Ends it with all of its connections, and starts it again on the same port.
    pub fn restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = Proxy::spawn(&self.program, &self.folder);
        self.wait();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
