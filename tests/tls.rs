//! Encrypted connections to real servers with certificates of every kind: right, of a wrong authority, for a wrong name
//! and expired; and certificates of the client. Every command must trust the same.

mod support;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use oltpbench::spec::{MySqlAddress, Secret, SslFiles, SslMode};
use oltpbench::target::mysql::connection::{Connection, Endpoint};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, date_time_ymd};
use rustix::process::{Pid, Signal, kill_process};
use support::Server;
use support::program::{OutputAssertExt, count, document, fail, oltpbench, report, succeed, text, wait_until};
use tempfile::TempDir;

const SIZE: [&str; 4] = ["--tables", "1", "--table-size", "100"];

/// An authority, and a folder for what it signs.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Authority {
        let folder = tempfile::tempdir().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().unwrap();
        fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Authority { folder, issuer: Issuer::new(params, key) }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn ca(&self) -> String {
        self.path("ca.pem").display().to_string()
    }

    /// Signs a certificate for a name, whose file and key it gives.
    fn sign(&self, name: &str, last_year: i32) -> [String; 2] {
        self.sign_for(&[name], name, last_year)
    }

    /// The same with the names that clients look at given apart from the file's.
    fn sign_for(&self, names: &[&str], name: &str, last_year: i32) -> [String; 2] {
        let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(last_year, 12, 31);
        let key = KeyPair::generate().unwrap();
        let files = ["certificate", "key"].map(|what| self.path(&format!("{name}.{what}.pem")));
        fs::write(&files[0], params.signed_by(&key, &self.issuer).unwrap().pem()).unwrap();
        fs::write(&files[1], key.serialize_pem()).unwrap();
        files.map(|file| file.display().to_string())
    }
}

/// MariaDB and MySQL with this certificate, and a table.
fn servers(authority: &Authority, [certificate, key]: &[String; 2]) -> impl Iterator<Item = Server> {
    let files = [("ca", &authority.ca()), ("cert", certificate), ("key", key)];
    let files = files.map(|(what, file)| format!("--ssl-{what}={file}"));
    let starts = [Server::mariadb, Server::mysql];
    starts.into_iter().filter_map(move |start| {
        let server = start(&files.each_ref().map(String::as_str))?;
        succeed(&[&["prepare", "--url", &server.url()], &SIZE[..]].concat());
        Some(server)
    })
}

fn arguments<'a>(url: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    [&["run", "--mode", "point-select", "--url", url, "--events", "20", "--time", "0"], &SIZE[..], rest].concat()
}

/// A run that must be encrypted.
#[track_caller]
fn encrypted(url: &str, rest: &[&str]) {
    let run = report(&arguments(url, rest));
    let encryption = run["encryption"].as_str().unwrap_or_default();
    assert!(encryption.starts_with("TLSv1.3 TLS_"), "{rest:?}: {}", run["target"]);
    assert_eq!(count(&run, "latency_us.connect.count"), 1);
}

/// A run that must be refused in one line.
#[track_caller]
fn refused(url: &str, rest: &[&str], why: &str) {
    let message = fail(1, &arguments(url, rest));
    assert!(message.contains(why), "{rest:?}: {message}");
    assert_eq!(message.trim_end().lines().filter(|line| !line.starts_with("Note")).count(), 1, "{message}");
}

/// Holds the outcome of each command that connects, on a machine that trusts `machine`, against what it must be:
/// success, or a refusal that says why.
#[track_caller]
fn all_commands(machine: &Authority, url: &str, rest: &[&str], refusal: Option<&str>) {
    for command in [&["cleanup"][..], &["prepare"], &["prewarm"], &["check"], &["run", "--events", "20", "--time", "0"]]
    {
        let mut program = oltpbench(&[command, &["--url", url], &SIZE, rest].concat());
        let done = program.env("SSL_CERT_FILE", machine.ca()).env_remove("SSL_CERT_DIR").assert();
        match refusal {
            None => drop(done.success()),
            Some(why) => {
                let message = text(&done.code(1).get_output().stderr);
                assert!(message.contains(why), "{command:?} {rest:?}: {message}");
            }
        }
    }
}

/// Why a session by itself is refused, since a run never comes to its sessions where its first connection is.
#[track_caller]
fn session_refused(server: &Server, ssl_mode: SslMode, ca: &str, why: &str) {
    let address = MySqlAddress {
        host: "127.0.0.1".into(),
        port: server.port(),
        user: "sysbench".into(),
        password: Some(Secret::new("sysbench")),
        ssl_mode,
        ssl: SslFiles { ca: Some(ca.into()), ..SslFiles::default() },
        ..MySqlAddress::default()
    };
    let message = Connection::open(&Endpoint::new(address).unwrap()).err().unwrap().message;
    assert!(message.contains(why), "{ssl_mode:?}: {message}");
}

#[test]
fn an_authority_is_trusted_only_if_it_is_given() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let bundle = other.path("bundle.pem");
    fs::write(&bundle, [other.ca(), ours.ca()].map(|file| fs::read_to_string(file).unwrap()).concat()).unwrap();
    for server in servers(&ours, &ours.sign("127.0.0.1", 2999)) {
        let url = server.url();
        let plain = report(&arguments(&url, &[]));
        assert!(plain["encryption"].is_null(), "{}", plain["encryption"]);
        for mode in ["preferred", "required", "REQUIRED"] {
            encrypted(&url, &["--ssl-mode", mode]);
        }
        for mode in ["verify-ca", "verify-identity", "VERIFY_IDENTITY"] {
            for ca in [&ours.ca(), bundle.to_str().unwrap()] {
                encrypted(&url, &["--ssl-mode", mode, "--ssl-ca", ca]);
            }
            refused(&url, &["--ssl-mode", mode, "--ssl-ca", &other.ca()], "no authority that is trusted");
        }
        for mode in [SslMode::VerifyCa, SslMode::VerifyIdentity] {
            session_refused(&server, mode, &other.ca(), "no authority that is trusted");
        }
        encrypted(&url, &["--ssl-ca", &ours.ca()]);
    }
}

#[test]
fn the_machines_authorities_are_trusted_unless_others_are_given() {
    let (ours, other) = (Authority::new("ours"), Authority::new("other"));
    let untrusted = Some("is of no authority that is trusted; give the right one by --ssl-ca");
    for server in servers(&ours, &ours.sign("127.0.0.1", 2999)) {
        all_commands(&ours, &server.url(), &["--ssl-mode", "verify-identity"], None);
        // The server would refuse this password, so whoever speaks of an authority has not shown it.
        let url = format!("mysql://sysbench:wrong@127.0.0.1:{}/sbtest", server.port());
        all_commands(&other, &url, &["--ssl-mode", "verify-identity"], untrusted);
        for mode in ["verify-ca", "verify-identity"] {
            all_commands(&ours, &url, &["--ssl-mode", mode, "--ssl-ca", &other.ca()], untrusted);
        }
    }
}

#[test]
fn a_certificate_for_another_name_is_refused_unless_the_name_is_given_or_not_asked_for() {
    let ours = Authority::new("ours");
    let ca = ours.ca();
    for server in servers(&ours, &ours.sign("db.example", 2999)) {
        let url = server.url();
        let verified = ["--ssl-mode", "verify-identity", "--ssl-ca", &ca];
        refused(&url, &verified, "is for another name");
        session_refused(&server, SslMode::VerifyIdentity, &ca, "is for another name");
        let named = |name| [&verified[..], &["--ssl-server-name", name]].concat();
        encrypted(&url, &named("db.example"));
        all_commands(&ours, &url, &named("db.example"), None);
        all_commands(&ours, &url, &named("db.example.org"), Some("is for another name"));
        encrypted(&url, &["--ssl-mode", "verify-ca", "--ssl-ca", &ca]);
    }
}

#[test]
fn a_certificate_without_names_is_not_said_to_be_for_another() {
    let ours = Authority::new("ours");
    for server in servers(&ours, &ours.sign_for(&[], "nobody", 2999)) {
        let url = server.url();
        refused(&url, &["--ssl-mode", "verify-identity", "--ssl-ca", &ours.ca()], "its certificate names no server");
        encrypted(&url, &["--ssl-mode", "verify-ca", "--ssl-ca", &ours.ca()]);
    }
}

#[test]
fn a_certificate_that_is_replaced_by_a_bad_one_in_mid_run_keeps_new_connections_away_and_is_told() {
    let ours = Authority::new("ours");
    let (right, wrong) = (ours.sign("127.0.0.1", 2999), ours.sign("elsewhere", 2999));
    let used = ["certificate", "key"].map(|what| ours.path(what).display().to_string());
    let put = |files: &[String; 2]| {
        for (to, from) in used.iter().zip(files) {
            fs::copy(from, to).unwrap();
        }
    };
    put(&right);
    for server in servers(&ours, &used) {
        let url = server.url();
        let verified = ["--ssl-mode", "verify-identity", "--ssl-ca", &ours.ca()];
        let endless = ["run", "--mode", "point-select", "--url", &url, "--threads", "3", "--time", "600"];
        let mut command = oltpbench(&[&endless[..], &SIZE, &verified].concat());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.json");
        command.args(["--report-interval", "0.2", "--json"]).arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // The first line comes once it measures.
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        wait_until("transactions", || server.status(&["Com_select"])["Com_select"] > 100);
        // MySQL would not take one that has expired, or of another authority.
        put(&wrong);
        server.sql(if server.version().contains("MariaDB") { "FLUSH SSL" } else { "ALTER INSTANCE RELOAD TLS" });
        let sessions = || -> Vec<String> {
            let processes = server.sql("SHOW PROCESSLIST");
            processes.iter().filter(|row| row[1] == "sysbench").map(|row| row[0].clone()).collect()
        };
        sessions().iter().for_each(|id| drop(server.try_sql(&format!("KILL {id}"))));
        wait_until("sessions to end", || sessions().is_empty());
        // This test's own questions are made over a connection each.
        let (mut asked, before) = (0, server.status(&["Connections"])["Connections"]);
        wait_until("attempts to connect again", || {
            asked += 1;
            server.status(&["Connections"])["Connections"] >= before + asked + 9
        });
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        let output = child.wait_with_output().unwrap();
        let run = document(&file, &output);
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert_eq!((count(&run, "away"), count(&run, "totals.reconnects")), (3, 0), "{run}");
        let errors = run["totals"]["errors"].as_array().unwrap();
        let refused = errors.iter().find(|error| error["statement"] == "connect").unwrap();
        assert!(refused["message"].as_str().unwrap().contains("its certificate is for another name"), "{refused}");
        // The next server begins with it.
        put(&right);
    }
}

#[test]
fn a_certificate_that_has_expired_is_refused_where_it_is_looked_at() {
    let ours = Authority::new("ours");
    for server in servers(&ours, &ours.sign("127.0.0.1", 2021)) {
        let url = server.url();
        encrypted(&url, &["--ssl-mode", "required"]);
        for mode in ["verify-ca", "verify-identity"] {
            refused(&url, &["--ssl-mode", mode, "--ssl-ca", &ours.ca()], "has expired");
        }
        session_refused(&server, SslMode::VerifyCa, &ours.ca(), "has expired");
    }
}

#[test]
fn a_client_shows_its_certificate_to_a_server_that_asks_for_one() {
    let ours = Authority::new("ours");
    let [certificate, key] = ours.sign("client", 2999);
    for server in servers(&ours, &ours.sign("127.0.0.1", 2999)) {
        let url = server.url();
        let users = ["'%'", "'127.0.0.1'", "localhost"].map(|host| format!("ALTER USER sysbench@{host} REQUIRE X509;"));
        server.sql(&users.concat());
        refused(&url, &["--ssl-mode", "required"], "refuses user `sysbench`");
        for mode in ["required", "preferred"] {
            encrypted(&url, &["--ssl-mode", mode, "--ssl-cert", &certificate, "--ssl-key", &key]);
        }
        encrypted(&url, &["--ssl-ca", &ours.ca(), "--ssl-cert", &certificate, "--ssl-key", &key]);
    }
}

#[test]
fn files_that_would_verify_nothing_or_cannot_be_read_are_refused_before_anything_connects() {
    let ours = Authority::new("ours");
    let (ca, [certificate, key]) = (ours.ca(), ours.sign("client", 2999));
    let missing = Path::new("/nowhere/ca.pem").display().to_string();
    for (rest, why) in [
        (&["--ssl-mode", "required", "--ssl-ca", &ca][..], "--ssl-ca is only for"),
        (&["--ssl-mode", "verify-ca"], "--ssl-ca is missing"),
        (&["--ssl-mode", "verify-ca", "--ssl-ca", &ca, "--ssl-server-name", "x"], "--ssl-server-name is only for"),
        (&["--ssl-mode", "verify-identity", "--ssl-server-name", "x"], "needs the authority by --ssl-ca"),
        (&["--ssl-cert", &certificate, "--ssl-key", &key], "--ssl-cert needs an encrypted connection"),
        (&["--ssl-mode", "required", "--ssl-cert", &certificate], "--ssl-key"),
        (&["--ssl-ca", &missing], "--ssl-ca /nowhere/ca.pem cannot be used"),
        (&["--ssl-ca", &key], "holds no certificate"),
        (&["--ssl-mode", "required", "--ssl-cert", &certificate, "--ssl-key", &ca], "--ssl-key"),
    ] {
        let message = fail(2, &arguments("mysql://127.0.0.1:1/sbtest", rest));
        assert!(message.contains(why), "{rest:?}: {message}");
    }
}
