//! The bytes' way to the server: a TCP connection or a Unix socket, either of them with or without TLS.
//!
//! Everything blocks: while it logs in until a deadline, and later for as long as the socket's own timeout lets it. What
//! may be interrupted looks every [`LOOK`] whether it is. Imports nothing of the crate but the address.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::spec::MySqlAddress;

/// How often a wait that may be interrupted looks whether it is.
const LOOK: Duration = Duration::from_millis(100);

/// How long is waited; with neither of them for ever.
#[derive(Clone, Copy)]
pub struct Patience<'a> {
    pub deadline: Option<Instant>,
    /// Once this is set nothing is waited for any more.
    pub interrupted: Option<&'a AtomicBool>,
}

impl Patience<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
    }

    /// How long to wait before looking again; `None` where there is nothing to look for.
    fn spell(&self) -> io::Result<Option<Duration>> {
        if self.is_interrupted() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let left = self.deadline.map(time_left).transpose()?;
        Ok(self.interrupted.map(|_| LOOK).into_iter().chain(left).min())
    }
}

pub struct Stream<'a> {
    socket: Socket<'a>,
    tls: Option<Box<ClientConnection>>,
}

struct Socket<'a> {
    way: Way,
    patience: Patience<'a>,
    silence: Option<Silence>,
    /// Whether the limit was met. It is met once: TLS hides the error of a write until the next one.
    silent: bool,
}

/// How long one read or write may take that makes no progress, once there is no deadline.
#[derive(Clone, Copy)]
pub struct Silence {
    pub limit: Duration,
    /// What sets it, for the error.
    pub option: &'static str,
}

enum Way {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl<'a> Stream<'a> {
    /// Connects without TLS. Until [`Stream::forget_deadline`] all that it does ends by the deadline.
    pub fn connect(address: &MySqlAddress, patience: Patience<'a>) -> io::Result<Stream<'a>> {
        let way = match &address.socket {
            Some(path) => Way::Unix(connect(AddressFamily::UNIX, &SocketAddrUnix::new(path)?, patience)?.into()),
            None => Way::Tcp(connect_tcp(&look_up(&address.host, address.port, patience)?, patience)?),
        };
        Ok(Stream { socket: Socket { way, patience, silence: None, silent: false }, tls: None })
    }

    /// Goes on with TLS.
    pub fn encrypt(&mut self, config: &Arc<ClientConfig>, server: &str) -> io::Result<()> {
        let name = ServerName::try_from(server.to_string()).map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut self.socket)?;
        }
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Version and cipher, by their standard names.
    pub fn encryption(&self) -> Option<String> {
        let tls = self.tls.as_ref()?;
        let version = tls.protocol_version()?.as_str()?.replace('_', ".");
        let cipher = tls.negotiated_cipher_suite()?.suite().as_str()?.replace("TLS13_", "TLS_");
        Some(format!("{version} {cipher}"))
    }

    /// From now on waits for as long as it takes, or until it is interrupted.
    pub fn forget_deadline(&mut self) -> io::Result<()> {
        self.limit_silence(None)
    }

    /// The same, but with a limit to silence, if there is one.
    pub fn limit_silence(&mut self, silence: Option<Silence>) -> io::Result<()> {
        self.socket.patience.deadline = None;
        self.socket.silence = silence;
        self.socket.set_timeout(self.socket.patience.spell()?.or(silence.map(|silence| silence.limit)))
    }

    pub fn is_interrupted(&self) -> bool {
        self.socket.patience.is_interrupted()
    }

    /// Tells the other side that nothing more will come; a TLS connection that just ends looks cut off.
    pub fn finish(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            tls.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.read(buffer),
            // Writes nothing: a server that takes no more may still have something to say.
            Some(tls) => loop {
                match tls.reader().read(buffer) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    done => return done,
                }
                tls.read_tls(&mut self.socket)?;
                tls.process_new_packets().map_err(io::Error::other)?;
            },
        }
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write(bytes),
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut self.socket).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.tls {
            None => Ok(()),
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut self.socket).flush(),
        }
    }
}

impl Socket<'_> {
    /// What one read or write may take, which a deadline sets anew before each of them.
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.way {
            Way::Tcp(tcp) => tcp.set_read_timeout(timeout).and_then(|()| tcp.set_write_timeout(timeout)),
            Way::Unix(unix) => unix.set_read_timeout(timeout).and_then(|()| unix.set_write_timeout(timeout)),
        }
    }

    /// Tries again what a signal interrupted, and what took longer than a spell while there is patience.
    fn patiently<R>(&mut self, mut attempt: impl FnMut(&mut Way) -> io::Result<R>) -> io::Result<R> {
        let mut waited = Duration::ZERO;
        loop {
            // Also where there is always something to read, as from a server whose answer has no end.
            if self.patience.is_interrupted() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if let Some(silence) = self.silence.filter(|_| self.silent) {
                return Err(io::Error::new(
                    io::ErrorKind::WouldBlock,
                    format!("no answer within {} s ({})", silence.limit.as_secs_f64(), silence.option),
                ));
            }
            if self.patience.deadline.is_some() {
                self.set_timeout(self.patience.spell()?)?;
            }
            match attempt(&mut self.way) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The socket's own timeout. TimedOut would be the system's, which has given the connection up.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let spell = self.patience.spell()?;
                    waited = waited.saturating_add(spell.unwrap_or(Duration::MAX));
                    self.silent = self.silence.is_some_and(|silence| silence.limit <= waited);
                }
                done => return done,
            }
        }
    }
}

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.patiently(|way| match way {
            Way::Tcp(tcp) => tcp.read(buffer),
            Way::Unix(unix) => unix.read(buffer),
        })
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(|way| match way {
            Way::Tcp(tcp) => tcp.write(bytes),
            Way::Unix(unix) => unix.write(bytes),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The addresses of a host, which are looked up each time, since a managed database moves behind its name.
///
/// The system's resolver heeds neither deadline nor signal; by its defaults it asks each server of /etc/resolv.conf
/// twice, for 5 s each. Where the wait may be interrupted it asks on a thread of its own, which is left behind if need
/// be. A session's worker asks by itself, so that its deadline only counts once the resolver answered: workers that
/// hang are left behind anyway, and a thousand of them must not become more with each attempt.
fn look_up(host: &str, port: u16, patience: Patience<'_>) -> io::Result<Vec<SocketAddr>> {
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![(ip, port).into()]);
    }
    let name = (host.to_string(), port);
    let resolve = move || (name.0.as_str(), name.1).to_socket_addrs().map(Iterator::collect);
    if patience.interrupted.is_none() {
        return resolve();
    }
    let (sender, receiver) = mpsc::channel();
    // Nobody listens any more if the wait is over.
    thread::Builder::new().name("name-lookup".into()).spawn(move || drop(sender.send(resolve())))?;
    loop {
        match receiver.recv_timeout(patience.spell()?.unwrap_or(LOOK)) {
            Ok(addresses) => return addresses,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the look-up of the name failed")),
        }
    }
}

/// Tries addresses in turn. Each of them gets an even share of the time that is left, since one may be of a machine that
/// is gone, which answers nothing.
fn connect_tcp(addresses: &[SocketAddr], patience: Patience<'_>) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for (at, address) in addresses.iter().enumerate() {
        let share = |deadline| -> io::Result<Instant> {
            Ok(Instant::now() + time_left(deadline)? / (addresses.len() - at) as u32)
        };
        let deadline = patience.deadline.map(share).transpose()?;
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        match connect(family, address, Patience { deadline, ..patience }) {
            Ok(socket) => {
                let tcp = TcpStream::from(socket);
                tcp.set_nodelay(true)?;
                // Notices, be it after hours, that a server vanished which owes an answer.
                sockopt::set_socket_keepalive(&tcp, true)?;
                return Ok(tcp);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Connects a socket. std's way heeds no deadline for a Unix socket, whose server may have no place left in its queue,
/// and no interruption for either.
fn connect(family: AddressFamily, address: &impl SocketAddrArg, patience: Patience<'_>) -> io::Result<OwnedFd> {
    let socket = rustix::net::socket(family, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    loop {
        // On Linux it bounds a connect too, which goes on where it is called again (socket(7)).
        sockopt::set_socket_timeout(&socket, Timeout::Send, patience.spell()?)?;
        match rustix::net::connect(&socket, address) {
            Ok(()) | Err(Errno::ISCONN) => return Ok(socket),
            Err(Errno::INPROGRESS | Errno::ALREADY | Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The time until `deadline`, of which there must be some.
fn time_left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use std::net::{Shutdown, TcpListener};
    use std::thread::JoinHandle;

    use rustls::crypto::ring;
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};

    use super::*;
    use crate::spec::TargetAddress;

    /// What the other side does once the connection stands: it reads nothing, and may write.
    type Peer = fn(&mut dyn Write);

    fn certificates() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
        let made = rcgen::generate_simple_self_signed(["localhost".into()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let client = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let client = client.with_safe_default_protocol_versions().unwrap();
        let server = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let server = server.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        (Arc::new(client.with_root_certificates(roots).with_no_client_auth()), Arc::new(server))
    }

    /// A connection, with TLS or without, to a peer that stays until the thread is joined, which the last sender lets go.
    fn connected(encrypted: bool, peer: Peer) -> (Stream<'static>, mpsc::Sender<()>, JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("mysql://{}/d", listener.local_addr().unwrap());
        let Ok(TargetAddress::MySql(address)) = TargetAddress::parse(&url) else { panic!("{url}") };
        let (client, server) = certificates();
        let (sender, receiver) = mpsc::channel();
        let serve = move || {
            let (mut tcp, _) = listener.accept().unwrap();
            if encrypted {
                let mut tls = StreamOwned::new(ServerConnection::new(server).unwrap(), tcp);
                while tls.conn.is_handshaking() {
                    tls.conn.complete_io(&mut tls.sock).unwrap();
                }
                receiver.recv().unwrap();
                peer(&mut tls);
                let _ = receiver.recv();
            } else {
                receiver.recv().unwrap();
                peer(&mut tcp);
                let _ = receiver.recv();
            }
        };
        let thread = thread::spawn(serve);
        let deadline = Some(Instant::now() + Duration::from_secs(20));
        let mut stream = Stream::connect(&address, Patience { deadline, interrupted: None }).unwrap();
        if encrypted {
            stream.encrypt(&client, "localhost").unwrap();
        }
        (stream, sender, thread)
    }

    #[test]
    fn a_server_that_takes_nothing_for_too_long_is_not_waited_for_again() {
        for encrypted in [false, true] {
            let (mut stream, sender, thread) = connected(encrypted, |peer| peer.write_all(b"too late").unwrap());
            let limit = Duration::from_millis(200);
            stream.limit_silence(Some(Silence { limit, option: "--an-option" })).unwrap();
            // More than the system keeps for a peer that does not read.
            let error = stream.write_all(&vec![0; 32 << 20]).and_then(|()| stream.flush()).unwrap_err();
            assert!(error.to_string().contains("no answer within 0.2 s (--an-option)"), "{encrypted}: {error}");
            sender.send(()).unwrap();
            let error = stream.read(&mut [0; 100]).unwrap_err();
            assert!(error.to_string().contains("no answer within"), "{encrypted}: {error}");
            drop(sender);
            // Its other end is open until then, so that what it wrote could have been read.
            thread.join().unwrap();
        }
    }

    #[test]
    fn what_a_server_said_before_it_took_no_more_is_heard() {
        for encrypted in [false, true] {
            let (mut stream, sender, thread) = connected(encrypted, |peer| peer.write_all(b"too long").unwrap());
            stream.forget_deadline().unwrap();
            let Way::Tcp(tcp) = &stream.socket.way else { panic!("a Unix socket") };
            tcp.shutdown(Shutdown::Write).unwrap();
            let error = stream.write_all(b"a statement").and_then(|()| stream.flush()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe, "{encrypted}");
            sender.send(()).unwrap();
            let mut said = [0; 8];
            stream.read_exact(&mut said).unwrap();
            assert_eq!(&said, b"too long", "{encrypted}");
            drop(sender);
            thread.join().unwrap();
        }
    }

    #[test]
    fn an_address_that_answers_nothing_leaves_time_for_the_next() {
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = listeners.each_ref().map(|listener| listener.local_addr().unwrap());
        // A queue of this length has one place, and whoever comes later hears nothing.
        rustix::net::listen(&listeners[0], 0).unwrap();
        let _first = TcpStream::connect(addresses[0]).unwrap();
        let deadline = Instant::now() + Duration::from_secs(2);
        let tcp = connect_tcp(&addresses, Patience { deadline: Some(deadline), interrupted: None }).unwrap();
        assert_eq!(tcp.peer_addr().unwrap(), addresses[1]);
    }
}
