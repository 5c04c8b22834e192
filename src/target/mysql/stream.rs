//! The bytes' way to the server: a TCP connection or a Unix socket, either of them with or without TLS.
//!
//! Everything blocks, and a signal interrupts nothing but a wait that may be (see [`Stream::wait_until`]). Imports
//! nothing of the crate but the address.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::spec::MySqlAddress;

/// How often a wait that may be interrupted looks whether it is.
const LOOK: Duration = Duration::from_millis(100);

pub struct Stream<'a> {
    socket: Socket,
    tls: Option<Box<ClientConnection>>,
    /// Once this is set nothing is waited for any more.
    interrupted: Option<&'a AtomicBool>,
}

enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl<'a> Stream<'a> {
    /// Connects without TLS. A host name is looked up each time, since a managed database moves behind its name.
    pub fn connect(address: &MySqlAddress, deadline: Instant) -> io::Result<Stream<'a>> {
        let socket = match &address.socket {
            Some(path) => Socket::Unix(UnixStream::connect(path)?),
            None => Socket::Tcp(connect_tcp(&address.host, address.port, deadline)?),
        };
        Ok(Stream { socket, tls: None, interrupted: None })
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

    /// How long a read or a write may take that makes no progress; `None` waits for ever.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match &self.socket {
            Socket::Tcp(tcp) => tcp.set_read_timeout(timeout).and_then(|()| tcp.set_write_timeout(timeout)),
            Socket::Unix(unix) => unix.set_read_timeout(timeout).and_then(|()| unix.set_write_timeout(timeout)),
        }
    }

    /// From now on waits for as long as it takes, or until `interrupted` is set.
    pub fn wait_until(&mut self, interrupted: &'a AtomicBool) -> io::Result<()> {
        self.interrupted = Some(interrupted);
        self.set_timeout(Some(LOOK))
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed))
    }

    /// Tries again what a signal interrupted, and after [`Stream::wait_until`] what only took its time.
    fn patiently<R>(&mut self, mut attempt: impl FnMut(&mut Self) -> io::Result<R>) -> io::Result<R> {
        loop {
            match attempt(self) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The socket's own timeout. TimedOut would be the system's, which has given the connection up.
                Err(error)
                    if error.kind() == io::ErrorKind::WouldBlock
                        && self.interrupted.is_some()
                        && !self.is_interrupted() => {}
                done => return done,
            }
        }
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
        self.patiently(|stream| match &mut stream.tls {
            None => stream.socket.read(buffer),
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut stream.socket).read(buffer),
        })
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.patiently(|stream| match &mut stream.tls {
            None => stream.socket.write(bytes),
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut stream.socket).write(bytes),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.patiently(|stream| match &mut stream.tls {
            None => Ok(()),
            Some(tls) => rustls::Stream::new(tls.as_mut(), &mut stream.socket).flush(),
        })
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(tcp) => tcp.read(buffer),
            Socket::Unix(unix) => unix.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(tcp) => tcp.write(bytes),
            Socket::Unix(unix) => unix.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Tries the addresses of a name in turn, as long as there is time.
fn connect_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, time_left(deadline)?) {
            Ok(tcp) => {
                tcp.set_nodelay(true)?;
                // Notices, be it after hours, that a server vanished which owes an answer.
                rustix::net::sockopt::set_socket_keepalive(&tcp, true)?;
                return Ok(tcp);
            }
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// The time until `deadline`, of which there must be some.
pub fn time_left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
