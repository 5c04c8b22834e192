//! One blocking connection to a server: it logs in, sends commands, and reads what they answer to the end.
//!
//! A command is built in a buffer that is kept and goes out in one write; its answer is read through a small buffer,
//! for most statements in one read, and rows are counted and dropped unless they are asked for. So a statement costs
//! two system calls and, without TLS or compression, no allocation.
//!
//! Invariant: after an error of class [`FaultClass::ConnectionLost`] nobody knows what the server will say next, and the
//! connection must be dropped. After any other the answer was read to its end.
//!
//! Must not import: anything that measures.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustls::ClientConfig;

use super::auth::{AuthError, Channel, Credentials, Exchange};
use super::compress::{FrameError, Frames};
use super::password::Passwords;
use super::response::{Answer, Expected, LONGEST_INSPECTED, Response, Rows, Skip, Step, TextRow, TextRows};
use super::stream::{Patience, Silence, Stream};
use super::tls::{self, TlsError};
use super::wire::{self, Greeting, HEADER, ServerError, WireError, capability, command, mark};
use super::{Cause, class_of, connect_fault, init_fault, is_refusal};
use crate::spec::{Algorithm, MySqlAddress, Secret, SslMode};
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
    #[error("it does not offer --compress {}, {offered}", .wanted.name())]
    NoCompression { wanted: Algorithm, offered: String },
    /// A statement of --init-sql failed.
    #[error("{0}")]
    Begin(Fault),
}

impl From<FrameError> for ClientError {
    fn from(error: FrameError) -> ClientError {
        match error {
            FrameError::Io(error) => error.into(),
            FrameError::Wire(error) => error.into(),
        }
    }
}

fn io_message(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the server closed it".into(),
        _ => error.to_string(),
    }
}

pub struct Connection<'a> {
    stream: Stream<'a>,
    /// What is between the stream and the packets, if the connection is compressed.
    frames: Option<Box<Frames>>,
    /// What was received and is not used up is `received[start..end]`.
    received: Box<[u8]>,
    start: usize,
    end: usize,
    /// When the first part of the last answer was there, if it came in several.
    first_part: Option<Instant>,
    /// The packet being built.
    out: Vec<u8>,
    deprecate_eof: bool,
    /// Whether the server waits for a command.
    usable: bool,
}

/// Where to connect to, and whom to trust there.
pub struct Endpoint {
    pub address: MySqlAddress,
    pub(super) passwords: Passwords,
    tls: Arc<ClientConfig>,
}

impl Endpoint {
    /// Reads the files that the address names.
    pub fn new(address: MySqlAddress) -> Result<Endpoint, TlsError> {
        let tls = tls::config(&address)?;
        let passwords = Passwords::of(&address);
        Ok(Endpoint { address, passwords, tls })
    }
}

impl<'a> Connection<'a> {
    /// Connects, logs in and begins as the address says, all of it within the address's time, but for the look-up of a
    /// name, which the system bounds, and statements that have a time of their own.
    pub fn open(endpoint: &Endpoint) -> Result<Connection<'a>, Fault> {
        Connection::open_with(endpoint, capability::WANTED | capability::FOUND_ROWS, None)
    }

    /// The same with the look-up. Whatever it waits for, from the look-up on, ends with [`FaultClass::Interrupted`] once
    /// `interrupted` is set.
    pub fn open_until(endpoint: &Endpoint, interrupted: &'a AtomicBool) -> Result<Connection<'a>, Fault> {
        Connection::open_with(endpoint, capability::WANTED, Some(interrupted))
    }

    /// The same for [`Connection::load`].
    pub fn open_to_load(endpoint: &Endpoint, interrupted: &'a AtomicBool) -> Result<Connection<'a>, Fault> {
        Connection::open_with(endpoint, capability::WANTED | capability::LOCAL_FILES, Some(interrupted))
    }

    fn open_with(
        endpoint: &Endpoint,
        wanted: u32,
        interrupted: Option<&'a AtomicBool>,
    ) -> Result<Connection<'a>, Fault> {
        endpoint.passwords.log_in(interrupted, is_refusal, |password| {
            let patience = Patience { deadline: Some(Instant::now() + endpoint.address.connect_timeout), interrupted };
            let opened = Connection::log_in(endpoint, password, wanted, patience);
            let begun = opened.and_then(|connection| connection.begun(&endpoint.address, patience));
            begun.map_err(|error| {
                let cause = match &error {
                    ClientError::Io(_)
                        if interrupted.is_some_and(|interrupted| interrupted.load(Ordering::Relaxed)) =>
                    {
                        return interruption();
                    }
                    ClientError::Begin(_) => return fault(error, ""),
                    ClientError::Io(error) => Cause::of(error),
                    _ => Cause::Other,
                };
                connect_fault(&endpoint.address, fault(error, ""), cause)
            })
        })
    }

    fn log_in(
        endpoint: &Endpoint,
        password: Option<&Secret>,
        wanted: u32,
        patience: Patience<'a>,
    ) -> Result<Connection<'a>, ClientError> {
        let address = &endpoint.address;
        let mut connection = Connection {
            stream: Stream::connect(address, patience)?,
            frames: None,
            received: vec![0; RECEIVE_BYTES].into(),
            start: 0,
            end: 0,
            first_part: None,
            out: Vec::new(),
            deprecate_eof: false,
            usable: false,
        };
        let (greeting, mut sequence) = connection.packet()?;
        let greeting = Greeting::parse(&greeting)?;
        let mut capabilities = greeting.capabilities & wanted | compression(address.compression, &greeting)?;
        if encrypts(address.ssl_mode, &greeting)? {
            capabilities |= capability::SSL;
            sequence = connection.encrypt(endpoint, capabilities, sequence)?;
        }
        connection.authenticate(address, password, &greeting, capabilities, sequence)?;
        if let Some(algorithm) = address.compression {
            if connection.start < connection.end {
                return Err(WireError::Violation("it went on before compression began").into());
            }
            connection.frames = Some(Box::new(Frames::new(algorithm)?));
        }
        connection.deprecate_eof = capabilities & capability::DEPRECATE_EOF != 0;
        connection.usable = true;
        Ok(connection)
    }

    /// The connection once the statements are done that all connections begin with: within the time to connect, or those
    /// of a session each within a time of its own, if statements have one.
    fn begun(mut self, address: &MySqlAddress, patience: Patience<'a>) -> Result<Connection<'a>, ClientError> {
        for sql in &address.init_sql {
            let limit = address.statement_timeout.filter(|_| patience.interrupted.is_none());
            if let Some(limit) = limit {
                self.stream.limit_silence(Some(Silence { limit, option: "--statement-timeout" }))?;
            }
            self.query(sql).map_err(|mut fault| {
                if fault.class == FaultClass::Interrupted {
                    return ClientError::Begin(fault);
                }
                let is_over = |deadline: Instant| deadline <= Instant::now();
                if limit.is_none() && fault.code == 0 && patience.deadline.is_some_and(is_over) {
                    let limit = address.connect_timeout.as_secs_f64();
                    fault.message = format!("no answer within {limit} s (--connect-timeout)");
                }
                ClientError::Begin(init_fault(sql, fault))
            })?;
        }
        self.stream.forget_deadline()?;
        Ok(self)
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
        password: Option<&Secret>,
        greeting: &Greeting,
        capabilities: u32,
        sequence: u8,
    ) -> Result<(), ClientError> {
        let password = password.map_or("", Secret::reveal);
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
            let (payload, sequence) = self.packet()?;
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
    fn packet(&mut self) -> Result<(Vec<u8>, u8), ClientError> {
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
            self.receive()?;
        }
    }

    /// Version and cipher of TLS; `None` without it.
    pub fn encryption(&self) -> Option<String> {
        self.stream.encryption()
    }

    /// Bounds how long the server may be silent within a statement, by what `option` says. A connection on which it was
    /// longer is lost.
    pub fn limit_silence(&mut self, limit: Option<Duration>, option: &'static str) -> Result<(), Fault> {
        let silence = limit.map(|limit| Silence { limit, option });
        self.stream.limit_silence(silence).map_err(|error| self.failed(error.into()))
    }

    /// Asks for nothing but the session's status.
    pub fn ping(&mut self) -> Result<Answer, Fault> {
        self.begin(command::PING);
        self.answer(Expected::Results, &mut Skip)
    }

    /// Sends text, which may be several statements, and counts and drops the rows of their results.
    pub fn query(&mut self, sql: &str) -> Result<Answer, Fault> {
        self.query_with(|out| out.extend_from_slice(sql.as_bytes()))
    }

    /// The same for text that is yet to be written: `write` appends it.
    pub fn query_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Answer, Fault> {
        self.query_into(write, &mut Skip)
    }

    /// The same with the rows, which are of the text protocol, handed on.
    pub fn query_into(&mut self, write: impl FnOnce(&mut Vec<u8>), rows: &mut impl Rows) -> Result<Answer, Fault> {
        self.begin(command::QUERY);
        write(&mut self.out);
        self.answer(Expected::Results, rows)
    }

    /// Sends a LOAD DATA LOCAL, and `data` in place of the file that the server then asks for.
    pub fn load(&mut self, sql: &str, data: &str) -> Result<Answer, Fault> {
        self.begin(command::QUERY);
        self.out.extend_from_slice(sql.as_bytes());
        self.answer_with(Expected::Results, &mut Skip, data.as_bytes())
    }

    /// Sends text, which may be several statements, and keeps the rows of their results.
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

    /// Executes a prepared statement, which takes as many arguments as are given, and hands its rows, which are of the
    /// binary protocol, on.
    pub fn execute_into(
        &mut self,
        statement: u32,
        arguments: Arguments<'_>,
        rows: &mut impl Rows,
    ) -> Result<Answer, Fault> {
        wire::execute(&mut self.out, statement, arguments);
        self.answer(Expected::Results, rows)
    }

    /// Drops a prepared statement, to which a server says nothing (dev:page_protocol_com_stmt_close.html).
    pub fn close(&mut self, statement: u32) -> Result<(), Fault> {
        self.begin(command::STMT_CLOSE);
        self.out.extend_from_slice(&statement.to_le_bytes());
        let sent = self.send_command();
        sent.map(drop).map_err(|error| self.failed(error.into()))
    }

    /// When the first part of the last answer was there, if it came in several.
    pub fn first_part(&mut self) -> Option<Instant> {
        self.first_part.take()
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
        if self.stream.is_interrupted() {
            return Err(interruption());
        }
        let answer = match self.send_command() {
            Ok(sequence) => self.read_answer(expected, sequence, rows, file),
            Err(error) => Err(self.last_words(error)),
        };
        answer.map_err(|error| self.failed(error))
    }

    /// What an error of a command means for the connection.
    fn failed(&mut self, error: ClientError) -> Fault {
        let fault = fault(error, BROKE);
        if fault.class != FaultClass::ConnectionLost {
            return fault;
        }
        self.usable = false;
        if self.stream.is_interrupted() { interruption() } else { fault }
    }

    fn read_answer(
        &mut self,
        expected: Expected,
        sequence: u8,
        rows: &mut impl Rows,
        file: &[u8],
    ) -> Result<Answer, ClientError> {
        let mut response = Response::new(expected, sequence, self.deprecate_eof);
        if self.frames.is_some() {
            response = response.without_turns();
        }
        self.first_part = None;
        let mut parts = 0;
        loop {
            let (used, step) = response.step(&self.received[self.start..self.end], rows)?;
            self.start += used;
            match step {
                Step::Done(answer) => return self.in_turn(answer),
                Step::More => {
                    // Most answers are one part, and cost no look at the clock.
                    if parts == 1 {
                        self.first_part = Some(Instant::now());
                    }
                    self.receive()?;
                    parts += 1;
                }
                // No file is ever read: there are only bytes of our own, or none, and an empty packet at their end
                // (dev:page_protocol_com_query_response_local_infile_request.html).
                Step::LocalInfile { mut sequence } => {
                    for part in file.chunks(FILE_PART_BYTES).chain([&[][..]]) {
                        wire::start(&mut self.out);
                        self.out.extend_from_slice(part);
                        sequence = self.send(sequence)?;
                    }
                    response.answered(sequence);
                }
            }
        }
    }

    /// On a compressed connection it is frames that have turns.
    fn in_turn(&self, answer: Result<Answer, ServerError>) -> Result<Answer, ClientError> {
        let out_of_turn = self.frames.as_ref().is_some_and(|frames| !frames.in_turn());
        match answer {
            Ok(_) if out_of_turn => Err(WireError::Violation("compressed packets out of order").into()),
            Ok(answer) => Ok(answer),
            Err(mut error) => {
                error.unsolicited |= out_of_turn;
                Err(WireError::from(error).into())
            }
        }
    }

    /// Sends the command that was built.
    fn send_command(&mut self) -> io::Result<u8> {
        if let Some(frames) = &mut self.frames {
            frames.begin();
        }
        self.send(0)
    }

    /// Sends the packet that was built.
    fn send(&mut self, sequence: u8) -> io::Result<u8> {
        match &mut self.frames {
            None => wire::send(&mut self.out, sequence, &mut self.stream),
            Some(frames) => wire::send(&mut self.out, sequence, &mut frames.to(&mut self.stream)),
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
    fn receive(&mut self) -> Result<(), ClientError> {
        // Little is left over, if anything: the part of a packet that must be looked at as a whole.
        self.received.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let room = &mut self.received[self.end..];
        let count = match &mut self.frames {
            None => self.stream.read(room)?,
            Some(frames) => frames.read(&mut self.stream, room)?,
        };
        match count {
            0 => Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
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
            let _ = self.send_command().and_then(|_| self.stream.finish());
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

/// The capability to ask for, which a server without it would not have.
fn compression(wanted: Option<Algorithm>, greeting: &Greeting) -> Result<u32, ClientError> {
    let Some(wanted) = wanted else { return Ok(0) };
    let offers = |algorithm: &Algorithm| greeting.capabilities & capability::compression(*algorithm) != 0;
    if offers(&wanted) {
        return Ok(capability::compression(wanted));
    }
    let offered: Vec<_> = Algorithm::ALL.iter().copied().filter(offers).map(Algorithm::name).collect();
    let offered = match offered.is_empty() {
        true => "nor any other compression; leave it out".into(),
        false => format!("but {}", offered.join(" and ")),
    };
    Err(ClientError::NoCompression { wanted, offered })
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
        ClientError::Begin(fault) => fault,
        other => Fault {
            class: FaultClass::ConnectionLost,
            code: 0,
            sqlstate: String::new(),
            message: format!("{prefix}{other}"),
        },
    }
}
