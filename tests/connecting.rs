//! Logins that come to nothing: servers that take no connection, say nothing, or say it byte by byte. Each ends by its
//! deadline, however many waits it is made of, and at once when it is interrupted.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use oltpbench::spec::{MySqlAddress, SslMode};
use oltpbench::target::mysql::connection::{Connection, Endpoint};
use oltpbench::target::{Fault, FaultClass};
use rustix::net::listen;

/// Of a login that must end before it.
const LONG: Duration = Duration::from_secs(60);
/// Far more than a login that ends on time takes on a busy machine, and far less than [`LONG`].
const ON_TIME: Duration = Duration::from_secs(20);
/// Between two bytes of a server that dribbles: a wait for each of them alone would never be long.
const DRIBBLE: Duration = Duration::from_millis(50);

/// Bytes of a greeting that offers TLS, from dev:page_protocol_connection_phase_packets_protocol_handshake_v10.html.
fn greeting() -> Vec<u8> {
    let (ssl, needed) = (1_u32 << 11, 1 << 9 | 1 << 15 | 1 << 19);
    let flags = (ssl | needed).to_le_bytes();
    let rest: [&[u8]; 7] =
        [b"\x0a8.0.0\0\x01\0\0\0abcdefgh\0", &flags[..2], &[45, 2, 0], &flags[2..], &[21], &[0; 10], b"ijklmnopqrst\0"];
    let payload = [&rest.concat()[..], b"caching_sha2_password\0"].concat();
    [&[payload.len() as u8, 0, 0, 0], &payload[..]].concat()
}

/// How a server keeps its clients waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// Its queue of connections is full.
    FullTcp,
    FullSocket,
    /// It never greets, or only a byte at a time.
    Silent,
    DribblingGreeting,
    /// It greets, and then says nothing to the client's TLS, or only a byte at a time.
    SilentTls,
    DribblingTls,
}

const SERVERS: [Server; 6] = [
    Server::FullTcp,
    Server::FullSocket,
    Server::Silent,
    Server::DribblingGreeting,
    Server::SilentTls,
    Server::DribblingTls,
];

/// A server that runs, with what holds it up.
struct Running {
    address: MySqlAddress,
    _held: Box<dyn std::any::Any>,
}

impl Server {
    fn start(self) -> Running {
        if self == Server::FullSocket {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("socket");
            let listener = UnixListener::bind(&path).unwrap();
            // A queue of this length has one place.
            listen(&listener, 0).unwrap();
            let first = UnixStream::connect(&path).unwrap();
            let address = MySqlAddress { socket: Some(path), ..MySqlAddress::default() };
            return Running { address, _held: Box::new((folder, listener, first)) };
        }
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let ssl_mode = if matches!(self, Server::SilentTls | Server::DribblingTls) {
            SslMode::Required
        } else {
            SslMode::Disabled
        };
        let address = MySqlAddress { host: "127.0.0.1".into(), port, ssl_mode, ..MySqlAddress::default() };
        if self == Server::FullTcp {
            listen(&listener, 0).unwrap();
            let first = TcpStream::connect(("127.0.0.1", port)).unwrap();
            return Running { address, _held: Box::new((listener, first)) };
        }
        // It ends with its client.
        thread::spawn(move || self.serve(listener.accept().unwrap().0));
        Running { address, _held: Box::new(()) }
    }

    fn serve(self, mut client: TcpStream) {
        if matches!(self, Server::SilentTls | Server::DribblingTls) {
            client.write_all(&greeting()).unwrap();
            // The client's wish for TLS.
            client.read_exact(&mut [0; 36]).unwrap();
        }
        // What begins a packet of 4 KiB, and a record of TLS with a message of 16 KiB.
        let begun: &[u8] = match self {
            Server::DribblingGreeting => b"\xff\x0f\0\0\x0a",
            Server::DribblingTls => b"\x16\x03\x03\x3f\xff\x0b\0\x3f\xfb",
            // Until the client goes away.
            _ => return drop(client.read_to_end(&mut Vec::new())),
        };
        for byte in begun.iter().copied().chain(std::iter::repeat(0)) {
            thread::sleep(DRIBBLE);
            if client.write_all(&[byte]).is_err() {
                return;
            }
        }
    }
}

fn opened(connection: Result<Connection<'_>, Fault>) -> Fault {
    connection.err().expect("nobody lets this client in")
}

#[test]
fn a_login_ends_by_its_deadline_whatever_it_waits_for() {
    for server in SERVERS {
        let Running { address, _held } = server.start();
        let endpoint = Endpoint::new(MySqlAddress { connect_timeout: Duration::from_millis(400), ..address }).unwrap();
        let began = Instant::now();
        let fault = opened(Connection::open(&endpoint));
        assert!(began.elapsed() < ON_TIME, "{server:?}: {:?}", began.elapsed());
        assert_eq!(fault.class, FaultClass::ConnectionLost, "{server:?}: {fault}");
        assert!(fault.message.contains("within 0.4 s"), "{server:?}: {fault}");
    }
}

#[test]
fn an_interruption_ends_a_login_whatever_it_waits_for() {
    for server in SERVERS {
        let Running { address, _held } = server.start();
        let endpoint = Endpoint::new(MySqlAddress { connect_timeout: LONG, ..address }).unwrap();
        let interrupted = AtomicBool::new(false);
        let began = Instant::now();
        let fault = thread::scope(|scope| {
            let login = scope.spawn(|| opened(Connection::open_until(&endpoint, &interrupted)));
            thread::sleep(Duration::from_millis(300));
            assert!(!login.is_finished(), "{server:?}");
            interrupted.store(true, Ordering::Relaxed);
            login.join().unwrap()
        });
        assert!(began.elapsed() < ON_TIME, "{server:?}: {:?}", began.elapsed());
        assert_eq!(fault.class, FaultClass::Interrupted, "{server:?}: {fault}");
    }
}

#[test]
fn what_connects_to_a_name_that_is_looked_up_also_tells_that_nobody_is_there() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = MySqlAddress { host: "localhost".into(), port, connect_timeout: LONG, ..MySqlAddress::default() };
    let (endpoint, interrupted) = (Endpoint::new(address).unwrap(), AtomicBool::new(false));
    for fault in [opened(Connection::open(&endpoint)), opened(Connection::open_until(&endpoint, &interrupted))] {
        assert!(fault.message.contains("no server answers at localhost:"), "{fault}");
    }
}
