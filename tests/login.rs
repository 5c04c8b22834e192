//! Each way of logging in, against real servers that ask for it: with a password, a long one and none, over TCP, a Unix
//! socket and TLS, and with a wrong password, which must always be refused. All commands log in alike.

mod support;

use std::path::{Path, PathBuf};

use oltpbench::spec::{MySqlAddress, Secret, SslMode};
use oltpbench::target::mysql::connection::{Connection, Endpoint};
use support::Server;
use support::program::{OutputAssertExt, oltpbench};

/// Longer than the nonce of 20 bytes that some methods mix with it, and as long as RSA with 2048 bits lets it be.
const LONG: &str = "a password of more than one hundred characters, as a token may be: \
                    0123456789012345678901234567890123456789012345678901234567890";

/// A user with a password and without one, and one with a long password.
const USERS: [(&str, &str); 3] = [("short", "secret"), ("none", ""), ("token", LONG)];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Tcp,
    Socket,
    Tls,
}

fn endpoint(server: &Server, way: Way, user: &str, password: &str) -> Endpoint {
    let address = MySqlAddress {
        host: "127.0.0.1".into(),
        port: server.port(),
        socket: (way == Way::Socket).then(|| server.socket()),
        user: user.into(),
        password: Some(Secret::new(password)).filter(|password| !password.reveal().is_empty()),
        ssl_mode: if way == Way::Tls { SslMode::Required } else { SslMode::Disabled },
        ..MySqlAddress::default()
    };
    Endpoint::new(address).unwrap()
}

/// Makes the users log in by a method.
fn make_users(server: &Server, users: &[(&str, &str)], identified: impl Fn(&str) -> String) {
    for &(user, password) in users {
        let identified = identified(password);
        server.sql(&format!(
            "DROP USER IF EXISTS {user}@'%'; CREATE USER {user}@'%' IDENTIFIED {identified}; GRANT ALL ON sbtest.* TO {user}@'%'"
        ));
    }
}

/// Logs everybody in, twice since a server may remember the first time, and proves that the connection is of use.
#[track_caller]
fn assert_all_log_in(server: &Server, users: &[(&str, &str)], ways: &[Way]) {
    for &way in ways {
        // Nobody is remembered from the way before.
        server.sql("FLUSH PRIVILEGES");
        for &(user, password) in users {
            let wrong = Connection::open(&endpoint(server, way, user, "wrong")).err();
            assert_eq!(wrong.map(|fault| fault.code), Some(1045), "{user} {way:?}");
            for time in ["first", "second"] {
                let mut connection = Connection::open(&endpoint(server, way, user, password))
                    .unwrap_or_else(|fault| panic!("{user} {way:?} {time}: {fault}"));
                let rows = connection.rows("SELECT USER()").unwrap();
                let name = rows[0][0].as_deref().map(String::from_utf8_lossy).unwrap();
                assert_eq!(name.split('@').next(), Some(user));
            }
        }
    }
}

/// The folder into which scripts/test puts MariaDB's plugin for ed25519; `None` where it did not.
fn mariadb_plugins() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/mariadb-plugins");
    if folder.join("auth_ed25519.so").exists() {
        return Some(folder);
    }
    assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "{} holds no auth_ed25519.so", folder.display());
    eprintln!("SKIPPED: {} holds no auth_ed25519.so (run scripts/test)", folder.display());
    None
}

/// Prepares, checks, measures and removes a table as each of the users, whom the server has forgotten.
#[track_caller]
fn assert_all_commands_log_in(server: &Server, users: &[(&str, &str)], way: Way) {
    for &(user, password) in users {
        let url = match way {
            Way::Tcp => format!("mysql://{user}@127.0.0.1:{}/sbtest", server.port()),
            Way::Socket => format!("mysql://{user}@localhost/sbtest?socket={}", server.socket().display()),
            Way::Tls => format!("mysql://{user}@127.0.0.1:{}/sbtest?ssl-mode=required", server.port()),
        };
        for command in
            [&["prepare"][..], &["check"], &["run", "--mode", "point-select", "--events", "10"], &["cleanup"]]
        {
            server.sql("FLUSH PRIVILEGES");
            let arguments = [command, &["--url", &url, "--tables", "1", "--table-size", "10"]].concat();
            oltpbench(&arguments).env("OLTPBENCH_PASSWORD", password).assert().success();
        }
    }
}

#[test]
fn mariadbs_native_passwords() {
    let Some(server) = Server::mariadb(&[]) else { return };
    make_users(&server, &USERS, |password| format!("VIA mysql_native_password USING PASSWORD('{password}')"));
    assert_all_log_in(&server, &USERS, &[Way::Tcp, Way::Socket]);
}

#[test]
fn mariadbs_ed25519() {
    let Some(folder) = mariadb_plugins() else { return };
    let Some(server) = Server::mariadb(&[&format!("--plugin-dir={}", folder.display())]) else { return };
    server.sql("INSTALL SONAME 'auth_ed25519'");
    // The server lets nobody in without a password.
    let users = USERS.map(|(user, password)| (user, if password.is_empty() { "x" } else { password }));
    make_users(&server, &users, |password| format!("VIA ed25519 USING PASSWORD('{password}')"));
    assert_all_log_in(&server, &users, &[Way::Tcp, Way::Socket]);
    assert_all_commands_log_in(&server, &users, Way::Tcp);
}

#[test]
fn mysqls_caching_sha2_by_public_key_by_socket_and_by_tls() {
    let Some(server) = Server::mysql(&[]) else { return };
    make_users(&server, &USERS, |password| format!("WITH caching_sha2_password BY '{password}'"));
    assert_all_log_in(&server, &USERS, &[Way::Tcp, Way::Socket, Way::Tls]);
    assert_all_commands_log_in(&server, &USERS[..1], Way::Socket);
}

#[test]
fn mysqls_sha256_by_public_key_and_by_tls() {
    let Some(server) = Server::mysql(&[]) else { return };
    make_users(&server, &USERS, |password| format!("WITH sha256_password BY '{password}'"));
    assert_all_log_in(&server, &USERS, &[Way::Tcp, Way::Socket, Way::Tls]);
}

#[test]
fn a_password_too_long_for_mysqls_public_key_needs_an_encrypted_connection() {
    let Some(server) = Server::mysql(&[]) else { return };
    let password = "x".repeat(255);
    for plugin in ["caching_sha2_password", "sha256_password"] {
        make_users(&server, &[("lengthy", &password)], |password| format!("WITH {plugin} BY '{password}'"));
        let fault = Connection::open(&endpoint(&server, Way::Tcp, "lengthy", &password)).err().unwrap();
        assert!(fault.message.contains("--ssl-mode required"), "{plugin}: {fault}");
        Connection::open(&endpoint(&server, Way::Tls, "lengthy", &password)).unwrap();
    }
}
