//! One blocking connection to a server: it logs in, sends commands, and reads what they answer to the end.
//!
//! A command is built in a buffer that is kept and goes out in one write; its answer is read through a small buffer,
//! for most statements in one read, and rows are counted and dropped unless they are asked for. So a statement costs
//! two system calls and, without TLS, no allocation.
//!
//! Invariant: after an error of class [`FaultClass::ConnectionLost`] nobody knows what the server will say next, and the
//! connection must be dropped. After any other the answer was read to its end.
//!
//! Must not import: anything that measures.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::auth::{AuthError, Channel, Credentials, Exchange};
use super::response::{Answer, Expected, LONGEST_INSPECTED, Response, Rows, Skip, Step, TextRow, TextRows};
use super::stream::{Stream, time_left};
use super::tls::{self, TlsError};
use super::wire::{self, Greeting, HEADER, WireError, capability, command, mark};
use super::{Cause, class_of, connect_fault};
use crate::spec::{MySqlAddress, SslMode};
use crate::target::{Fault, FaultClass, interruption};
use crate::workload::plan::Arguments;

/// Enough for the answers of most statements, so that they take one read.
const RECEIVE_BYTES: usize = 16 << 10;
/// Packets of a file's content.
const FILE_PART_BYTES: usize = 1 << 20;
const _: () = assert!(RECEIVE_BYTES >= HEADER + LONGEST_INSPECTED);

#[derive(Debug, thiserror::Error)]
enum ClientError {
    #[error("{}", io_message(.0))]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error(transparent)]
    Auth(#[from] AuthError),
    #[error("it offers no encryption, which --ssl-mode asks for")]
    NoTls,
}

fn io_message(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the server closed it".into(),
        io::ErrorKind::WouldBlock => "no answer within --statement-timeout".into(),
        _ => error.to_string(),
    }
}

pub struct Connection<'a> {
    stream: Stream<'a>,
    /// What was received and is not used up is `received[start..end]`.
    received: Box<[u8]>,
    start: usize,
    end: usize,
    /// The packet being built.
    out: Vec<u8>,
    deprecate_eof: bool,
    /// Whether the server waits for a command.
    usable: bool,
}

/// Where to connect to, and whom to trust there.
pub struct Endpoint {
    pub address: MySqlAddress,
    tls: Arc<ClientConfig>,
}

impl Endpoint {
    /// Reads the files that the address names.
    pub fn new(address: MySqlAddress) -> Result<Endpoint, TlsError> {
        let tls = tls::config(&address)?;
        Ok(Endpoint { address, tls })
    }
}

impl<'a> Connection<'a> {
    /// Connects and logs in, all of it within the address's time, but for the look-up of a name, which the system bounds.
    pub fn open(endpoint: &Endpoint) -> Result<Connection<'a>, Fault> {
        Connection::open_with(endpoint, capability::WANTED)
    }

    /// The same for [`Connection::load`]. What it does afterwards ends with [`FaultClass::Interrupted`] once
    /// `interrupted` is set.
    pub fn open_to_load(endpoint: &Endpoint, interrupted: &'a AtomicBool) -> Result<Connection<'a>, Fault> {
        let mut connection = Connection::open_with(endpoint, capability::WANTED | capability::LOCAL_FILES)?;
        match connection.stream.wait_until(interrupted) {
            Ok(()) => Ok(connection),
            Err(error) => Err(fault(error.into(), BROKE)),
        }
    }

    fn open_with(endpoint: &Endpoint, wanted: u32) -> Result<Connection<'a>, Fault> {
        let deadline = Instant::now() + endpoint.address.connect_timeout;
        Connection::log_in(endpoint, wanted, deadline).map_err(|error| {
            let cause = match &error {
                ClientError::Io(error) => Cause::of(error),
                _ => Cause::Other,
            };
            connect_fault(&endpoint.address, fault(error, ""), cause)
        })
    }

    fn log_in(endpoint: &Endpoint, wanted: u32, deadline: Instant) -> Result<Connection<'a>, ClientError> {
        let address = &endpoint.address;
        let mut connection = Connection {
            stream: Stream::connect(address, deadline)?,
            received: vec![0; RECEIVE_BYTES].into(),
            start: 0,
            end: 0,
            out: Vec::new(),
            deprecate_eof: false,
            usable: false,
        };
        let (greeting, mut sequence) = connection.packet(deadline)?;
        let greeting = Greeting::parse(&greeting)?;
        let mut capabilities = greeting.capabilities & wanted;
        if encrypts(address.ssl_mode, &greeting)? {
            capabilities |= capability::SSL;
            sequence = connection.encrypt(endpoint, capabilities, sequence)?;
        }
        connection.authenticate(address, &greeting, capabilities, sequence, deadline)?;
        connection.stream.set_timeout(None)?;
        connection.deprecate_eof = capabilities & capability::DEPRECATE_EOF != 0;
        connection.usable = true;
        Ok(connection)
    }

    fn encrypt(&mut self, endpoint: &Endpoint, capabilities: u32, sequence: u8) -> Result<u8, ClientError> {
        wire::ssl_request(&mut self.out, capabilities);
        let sequence = wire::send(&mut self.out, sequence, &mut self.stream)?;
        if self.start < self.end {
            // Whoever sits in between could have put it there, to be taken for something encrypted.
            return Err(WireError::Violation("it went on before encryption began").into());
        }
        self.stream.encrypt(&endpoint.tls, tls::server_name(&endpoint.address))?;
        Ok(sequence)
    }

    /// The dialogue from the client's first packet to the server's verdict
    /// (dev:page_protocol_connection_phase.html, kb:connection).
    fn authenticate(
        &mut self,
        address: &MySqlAddress,
        greeting: &Greeting,
        capabilities: u32,
        sequence: u8,
        deadline: Instant,
    ) -> Result<(), ClientError> {
        let password = address.password.as_ref().map_or("", |password| password.reveal());
        let channel = match address.socket {
            _ if self.stream.is_encrypted() => Channel::Tls,
            Some(_) => Channel::Local,
            None => Channel::Open,
        };
        let credentials = Credentials { password, channel, cleartext_allowed: address.cleartext_allowed };
        let mut exchange = Exchange::first(&greeting.plugin, &greeting.nonce, credentials);
        let (answer, plugin) = (exchange.answer()?, exchange.name());
        wire::login(&mut self.out, capabilities, &address.user, &address.database, plugin, &answer);
        wire::send(&mut self.out, sequence, &mut self.stream)?;
        loop {
            let (payload, sequence) = self.packet(deadline)?;
            let answer = match payload.first() {
                Some(&mark::OK) => return Ok(()),
                Some(&mark::ERR) => return Err(WireError::from(wire::server_error(&payload, false)).into()),
                Some(&mark::AUTH_MORE) => exchange.go_on(&payload[1..])?,
                Some(&mark::END) => {
                    let (plugin, nonce) = wire::auth_switch(&payload)?;
                    exchange = Exchange::new(plugin, nonce, credentials)?;
                    Some(exchange.answer()?)
                }
                _ => return Err(WireError::Violation("a packet that belongs to no login").into()),
            };
            if let Some(answer) = answer {
                wire::start(&mut self.out);
                self.out.extend_from_slice(&answer);
                wire::send(&mut self.out, sequence, &mut self.stream)?;
            }
        }
    }

    /// Receives a small packet as a whole, with the sequence number of the one that follows it.
    fn packet(&mut self, deadline: Instant) -> Result<(Vec<u8>, u8), ClientError> {
        loop {
            let bytes = &self.received[self.start..self.end];
            if let Some((header, payload)) = bytes.split_first_chunk() {
                let length = wire::packet_length(header);
                if length > LONGEST_INSPECTED {
                    return Err(WireError::Violation("a packet longer than a login has").into());
                }
                if let Some(payload) = payload.get(..length) {
                    self.start += HEADER + length;
                    return Ok((payload.to_vec(), header[3].wrapping_add(1)));
                }
            }
            self.stream.set_timeout(Some(time_left(deadline)?))?;
            self.receive()?;
        }
    }

    /// Version and cipher of TLS; `None` without it.
    pub fn encryption(&self) -> Option<String> {
        self.stream.encryption()
    }

    /// Bounds how long the server may be silent within a statement. A connection on which it was longer is lost.
    pub fn limit_silence(&self, limit: Option<Duration>) -> Result<(), Fault> {
        self.stream.set_timeout(limit).map_err(|error| fault(error.into(), BROKE))
    }

    /// Sends text, which may be several statements, and counts and drops the rows of their results.
    pub fn query(&mut self, sql: &str) -> Result<Answer, Fault> {
        self.query_with(|out| out.extend_from_slice(sql.as_bytes()))
    }

    /// The same for text that is yet to be written: `write` appends it.
    pub fn query_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Answer, Fault> {
        self.begin(command::QUERY);
        write(&mut self.out);
        self.answer(Expected::Results, &mut Skip)
    }

    /// Sends a LOAD DATA LOCAL, and `data` in place of the file that the server then asks for.
    pub fn load(&mut self, sql: &str, data: &str) -> Result<Answer, Fault> {
        self.begin(command::QUERY);
        self.out.extend_from_slice(sql.as_bytes());
        self.answer_with(Expected::Results, &mut Skip, data.as_bytes())
    }

    /// Sends text and keeps the rows of its results.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<TextRow>, Fault> {
        self.begin(command::QUERY);
        self.out.extend_from_slice(sql.as_bytes());
        let mut rows = TextRows::default();
        self.answer(Expected::Results, &mut rows)?;
        Ok(rows.rows)
    }

    /// Prepares a statement, whose number is in the answer. It lives as long as the connection.
    pub fn prepare(&mut self, sql: &str) -> Result<Answer, Fault> {
        self.begin(command::STMT_PREPARE);
        self.out.extend_from_slice(sql.as_bytes());
        self.answer(Expected::Statement, &mut Skip)
    }

    /// Executes a prepared statement, which takes as many arguments as are given.
    pub fn execute(&mut self, statement: u32, arguments: Arguments<'_>) -> Result<Answer, Fault> {
        wire::execute(&mut self.out, statement, arguments);
        self.answer(Expected::Results, &mut Skip)
    }

    fn begin(&mut self, command: u8) {
        wire::start(&mut self.out);
        self.out.push(command);
    }

    /// Sends the command that was built, and reads the answer to its end.
    fn answer(&mut self, expected: Expected, rows: &mut impl Rows) -> Result<Answer, Fault> {
        self.answer_with(expected, rows, &[])
    }

    /// The same, with what a server gets that asks for a file.
    fn answer_with(&mut self, expected: Expected, rows: &mut impl Rows, file: &[u8]) -> Result<Answer, Fault> {
        let answer = match wire::send(&mut self.out, 0, &mut self.stream) {
            Ok(sequence) => self.read_answer(expected, sequence, rows, file),
            Err(error) => Err(self.last_words(error)),
        };
        answer.map_err(|error| {
            let mut fault = fault(error, BROKE);
            if fault.class == FaultClass::ConnectionLost {
                self.usable = false;
                if self.stream.is_interrupted() {
                    fault = interruption();
                }
            }
            fault
        })
    }

    fn read_answer(
        &mut self,
        expected: Expected,
        sequence: u8,
        rows: &mut impl Rows,
        file: &[u8],
    ) -> Result<Answer, ClientError> {
        let mut response = Response::new(expected, sequence, self.deprecate_eof);
        loop {
            let (used, step) = response.step(&self.received[self.start..self.end], rows)?;
            self.start += used;
            match step {
                Step::Done(answer) => return answer.map_err(|error| WireError::from(error).into()),
                Step::More => self.receive()?,
                // No file is ever read: there are only bytes of our own, or none, and an empty packet at their end
                // (dev:page_protocol_com_query_response_local_infile_request.html).
                Step::LocalInfile { mut sequence } => {
                    for part in file.chunks(FILE_PART_BYTES).chain([&[][..]]) {
                        wire::start(&mut self.out);
                        self.out.extend_from_slice(part);
                        sequence = wire::send(&mut self.out, sequence, &mut self.stream)?;
                    }
                    response.answered(sequence);
                }
            }
        }
    }

    /// A server that takes no more, such as a statement longer than its max_allowed_packet, may have said why.
    fn last_words(&mut self, broken: io::Error) -> ClientError {
        match self.read_answer(Expected::Results, 0, &mut Skip, &[]) {
            Err(ClientError::Wire(WireError::Server(mut error))) => {
                error.unsolicited = true;
                WireError::from(error).into()
            }
            _ => broken.into(),
        }
    }

    /// Receives some bytes, whatever is there.
    fn receive(&mut self) -> io::Result<()> {
        // Little is left over, if anything: the part of a packet that must be looked at as a whole.
        self.received.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        match self.stream.read(&mut self.received[self.end..])? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            count => {
                self.end += count;
                Ok(())
            }
        }
    }
}

impl Drop for Connection<'_> {
    /// A server counts and logs a client that just hangs up, so it says goodbye.
    fn drop(&mut self) {
        if self.usable {
            self.begin(command::QUIT);
            // A server that is gone needs no goodbye.
            let _ = wire::send(&mut self.out, 0, &mut self.stream).and_then(|_| self.stream.finish());
        }
    }
}

fn encrypts(mode: SslMode, greeting: &Greeting) -> Result<bool, ClientError> {
    let offered = greeting.capabilities & capability::SSL != 0;
    match mode {
        SslMode::Disabled => Ok(false),
        SslMode::Preferred => Ok(offered),
        SslMode::Required | SslMode::VerifyCa | SslMode::VerifyIdentity if offered => Ok(true),
        SslMode::Required | SslMode::VerifyCa | SslMode::VerifyIdentity => Err(ClientError::NoTls),
    }
}

/// What stands before the message of an error that ends a connection in use.
const BROKE: &str = "the connection broke: ";

fn fault(error: ClientError, prefix: &str) -> Fault {
    match error {
        ClientError::Wire(WireError::Server(error)) => Fault {
            class: if error.unsolicited { FaultClass::ConnectionLost } else { class_of(error.code, &error.message) },
            code: i64::from(error.code),
            sqlstate: error.sqlstate,
            message: error.message,
        },
        other => Fault {
            class: FaultClass::ConnectionLost,
            code: 0,
            sqlstate: String::new(),
            message: format!("{prefix}{other}"),
        },
    }
}
