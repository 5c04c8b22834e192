//! A server that speaks MySQL's protocol and holds no data: whatever is asked, its answer is there at once, so a
//! measurement on it is one of the client alone. For tests it also misbehaves in ways that real servers cannot be told to.
//!
//! It greets as MySQL 8.0 would, lets everybody in, answers each SELECT with one row of one column (sysbench's `c`) and
//! everything else with OK. Its status is what [`status`] says. Three questions that `oltpbench run` asks before it measures have answers of their own: for
//! each table that one asks about there is one, with the ids 1 to [`TABLE_ROWS`]. A thread serves a connection; a
//! command costs it one read and one write.
//!
//! Packets are those of dev.mysql.com/doc/dev/mysql-server/latest/PAGE_PROTOCOL.html, written down anew, so that a
//! mistake of the client is not made here too.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The default of `--table-size`, which the tables claim to have.
pub const TABLE_ROWS: u64 = 25_000;

/// A value of column `c` as sysbench makes them.
const C: &str = "68487932199-96439406143-93774651418-41631865787-96406072701-20604855487-25459966574-28203206787-\
                 41238978918-19503783441";

const STACK_BYTES: usize = 64 << 10;
/// Garbage for one command: longer than a packet's header, shorter than what fills a socket.
const GARBAGE_BYTES: usize = 64;

/// How the server treats each connection. Its commands are counted from the login on, which is none; after 0 of them
/// means that not even a greeting is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Answers every command.
    Prompt,
    /// Answers so many commands, then takes more and says nothing.
    SilentAfter(u64),
    /// Answers so many commands properly, and later ones with bytes that mean nothing.
    GarbageAfter(u64),
    /// Answers so many commands, then hangs up.
    CloseAfter(u64),
    /// Answers each so many-th command with an error of this number and SQLSTATE.
    ErrorEach(u64, u16, &'static str),
    /// Answers the first command of a connection that begins with this word with such an error, and remembers all texts.
    ErrorOnceAt(&'static str, u16, &'static str),
    /// Takes so long to let a client in.
    GreetingAfter(Duration),
}

/// What was sent over all connections that have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    pub connections: u64,
    /// Rows of column `c`, which is one for each statement of a point select.
    pub rows: u64,
    /// Errors that the behaviour asks for.
    pub errors: u64,
    /// The most clients that were waiting to be let in at any moment.
    pub most_at_once: u64,
}

/// A null server, which listens until the process ends.
pub struct NullServer {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Connections that are open, and what those that are not have been sent.
    open_and_sent: Mutex<(u64, Sent)>,
    closed: Condvar,
    waiting: AtomicU64,
    most_waiting: AtomicU64,
    /// The texts of connections that have ended.
    heard: Mutex<Vec<String>>,
}

/// A counter and a level of SHOW GLOBAL STATUS, as a connection is told when it asks for so many-th time.
pub fn status(time: u64) -> [(&'static str, u64); 2] {
    [("Com_select", 1000 * time * time), ("Threads_running", 10 * time)]
}

impl NullServer {
    /// Listens on this port of the loopback address; on a free one if it is 0.
    pub fn start(port: u16, behaviour: Behaviour) -> io::Result<NullServer> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State::default());
        let accepting = Arc::clone(&state);
        thread::spawn(move || accept(&listener, behaviour, &accepting));
        Ok(NullServer { port, state })
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("mysql://sysbench@127.0.0.1:{}/sbtest", self.port)
    }

    /// What was sent so far. Waits until no connection is open, so the clients must have ended.
    pub fn sent(&self) -> Sent {
        let state = self.state.open_and_sent.lock().unwrap_or_else(PoisonError::into_inner);
        let state = self.state.closed.wait_while(state, |(open, _)| *open > 0);
        let sent = state.unwrap_or_else(PoisonError::into_inner).1;
        Sent { most_at_once: self.state.most_waiting.load(Ordering::Relaxed), ..sent }
    }

    /// The texts of all connections that have ended, one connection after the other.
    pub fn heard(&self) -> Vec<String> {
        self.state.heard.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn accept(listener: &TcpListener, behaviour: Behaviour, state: &Arc<State>) {
    for stream in listener.incoming().flatten() {
        state.open_and_sent.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        let waiting = state.waiting.fetch_add(1, Ordering::Relaxed) + 1;
        state.most_waiting.fetch_max(waiting, Ordering::Relaxed);
        let ended = Arc::clone(state);
        let serve = move || {
            let mut connection = Connection::new(stream, behaviour, &ended);
            // A client that goes away without a word is as good as one that quits.
            let _ = connection.serve();
            ended.end(&connection.sent, connection.heard);
        };
        if thread::Builder::new().stack_size(STACK_BYTES).spawn(serve).is_err() {
            // The stream was dropped with the closure.
            state.waiting.fetch_sub(1, Ordering::Relaxed);
            state.end(&Sent::default(), Vec::new());
        }
    }
}

impl State {
    fn end(&self, sent: &Sent, heard: Vec<String>) {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner).extend(heard);
        let mut state = self.open_and_sent.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 -= 1;
        state.1.connections += sent.connections;
        state.1.rows += sent.rows;
        state.1.errors += sent.errors;
        self.closed.notify_all();
    }
}

/// Capability flags.
const LONG_PASSWORD: u32 = 1;
const CONNECT_WITH_DB: u32 = 1 << 3;
const PROTOCOL_41: u32 = 1 << 9;
const TRANSACTIONS: u32 = 1 << 13;
const SECURE_CONNECTION: u32 = 1 << 15;
const PLUGIN_AUTH: u32 = 1 << 19;
const DEPRECATE_EOF: u32 = 1 << 24;
const CAPABILITIES: u32 =
    LONG_PASSWORD | CONNECT_WITH_DB | PROTOCOL_41 | TRANSACTIONS | SECURE_CONNECTION | PLUGIN_AUTH | DEPRECATE_EOF;

/// Commands.
const QUIT: u8 = 0x01;
const INIT_DB: u8 = 0x02;
const QUERY: u8 = 0x03;
const PING: u8 = 0x0e;
const STMT_PREPARE: u8 = 0x16;
const STMT_EXECUTE: u8 = 0x17;
const STMT_CLOSE: u8 = 0x19;

/// SERVER_STATUS_AUTOCOMMIT.
const STATUS: [u8; 2] = [2, 0];
/// utf8mb4_general_ci.
const COLLATION: u8 = 45;
const TYPE_STRING: u8 = 0xfe;

struct Connection {
    state: Arc<State>,
    requests: Requests,
    behaviour: Behaviour,
    commands: u64,
    sent: Sent,
    /// Texts of [`Behaviour::ErrorOnceAt`].
    heard: Vec<String>,
    answers: Answers,
    /// For each prepared statement whether it is a SELECT.
    statements: Vec<bool>,
}

impl Connection {
    fn new(stream: TcpStream, behaviour: Behaviour, state: &Arc<State>) -> Connection {
        Connection {
            state: Arc::clone(state),
            requests: Requests { stream, buffer: vec![0; 16 << 10], start: 0, end: 0 },
            behaviour,
            commands: 0,
            sent: Sent { connections: 1, ..Sent::default() },
            heard: Vec::new(),
            answers: Answers::new(false),
            statements: Vec::new(),
        }
    }

    fn serve(&mut self) -> io::Result<()> {
        self.requests.stream.set_nodelay(true)?;
        let let_in = self.greet();
        self.state.waiting.fetch_sub(1, Ordering::Relaxed);
        let Some(sequence) = let_in? else { return Ok(()) };
        let mut packet = Vec::new();
        push_packet(&mut packet, sequence, &OK);
        self.requests.stream.write_all(&packet)?;
        let mut answer = Vec::new();
        while let Some((_, payload)) = self.requests.next()? {
            let (command, rest) = match payload {
                [QUIT, ..] | [] => return Ok(()),
                // The one command that has no answer.
                [STMT_CLOSE, ..] => continue,
                [command, rest @ ..] => (*command, rest),
            };
            answer.clear();
            if let Behaviour::ErrorOnceAt(..) = self.behaviour {
                self.heard.push(String::from_utf8_lossy(rest).into_owned());
            }
            match self.behaviour {
                Behaviour::CloseAfter(limit) if self.commands >= limit => return Ok(()),
                Behaviour::SilentAfter(limit) if self.commands >= limit => {}
                Behaviour::GarbageAfter(limit) if self.commands >= limit => push_garbage(&mut answer, self.commands),
                Behaviour::ErrorEach(each, code, sqlstate) if (self.commands + 1).is_multiple_of(each) => {
                    self.sent.errors += 1;
                    push_packet(&mut answer, 1, &error(code, sqlstate, "an error that the test wants"));
                }
                Behaviour::ErrorOnceAt(word, code, sqlstate)
                    if self.sent.errors == 0 && rest.starts_with(word.as_bytes()) =>
                {
                    self.sent.errors += 1;
                    push_packet(&mut answer, 1, &error(code, sqlstate, "an error that the test wants"));
                }
                _ => self.sent.rows += self.answers.push(&mut answer, command, rest, &mut self.statements),
            }
            self.commands += 1;
            self.requests.stream.write_all(&answer)?;
        }
        Ok(())
    }

    /// Hears the client's login, and gives the number of the packet that lets it in; `None` if there is nothing to say to it.
    fn greet(&mut self) -> io::Result<Option<u8>> {
        match self.behaviour {
            Behaviour::GreetingAfter(pause) => thread::sleep(pause),
            Behaviour::CloseAfter(0) => return Ok(None),
            Behaviour::SilentAfter(0) => {
                // Until the client gives up.
                while self.requests.next()?.is_some() {}
                return Ok(None);
            }
            Behaviour::GarbageAfter(0) => {
                let mut garbage = Vec::new();
                push_garbage(&mut garbage, 0);
                self.requests.stream.write_all(&garbage)?;
                while self.requests.next()?.is_some() {}
                return Ok(None);
            }
            _ => {}
        }
        let mut packet = Vec::new();
        push_packet(&mut packet, 0, &greeting());
        self.requests.stream.write_all(&packet)?;
        let Some((sequence, login)) = self.requests.next()? else { return Ok(None) };
        let flags = login.first_chunk().map_or(0, |flags| u32::from_le_bytes(*flags));
        self.answers = Answers::new(flags & DEPRECATE_EOF != 0);
        Ok(Some(sequence.wrapping_add(1)))
    }
}

/// The packets that a client sends.
struct Requests {
    stream: TcpStream,
    /// Received and not yet looked at is `buffer[start..end]`.
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl Requests {
    /// Sequence number and payload of the next packet; `None` when the client hung up.
    fn next(&mut self) -> io::Result<Option<(u8, &[u8])>> {
        loop {
            let received = &self.buffer[self.start..self.end];
            let length = received.first_chunk().map(|[a, b, c, _]| u32::from_le_bytes([*a, *b, *c, 0]) as usize);
            if let Some(length) = length.filter(|length| received.len() >= 4 + length) {
                let at = self.start;
                self.start += 4 + length;
                return Ok(Some((self.buffer[at + 3], &self.buffer[at + 4..at + 4 + length])));
            }
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            let wanted = length.map_or(0, |length| 4 + length);
            if self.buffer.len() < wanted {
                self.buffer.resize(wanted, 0);
            }
            match self.stream.read(&mut self.buffer[self.end..])? {
                0 => return Ok(None),
                count => self.end += count,
            }
        }
    }
}

const OK: [u8; 7] = [0, 0, 0, STATUS[0], STATUS[1], 0, 0];

/// Answers to commands, in the form that the client asked for. Those of SELECTs in a run are kept ready.
struct Answers {
    deprecate_eof: bool,
    /// How often the status was asked for.
    statuses: Cell<u64>,
    ok: Vec<u8>,
    text_row: Vec<u8>,
    binary_row: Vec<u8>,
}

impl Answers {
    fn new(deprecate_eof: bool) -> Answers {
        let mut answers = Answers {
            deprecate_eof,
            statuses: Cell::new(0),
            ok: Vec::new(),
            text_row: Vec::new(),
            binary_row: Vec::new(),
        };
        push_packet(&mut answers.ok, 1, &OK);
        answers.text_row = answers.result(&["c"], &[text_row(&[C])]);
        // A binary row begins with a zero and the bits of its nulls, of which there are none.
        answers.binary_row = answers.result(&["c"], &[[&[0, 0], &text_row(&[C])[..]].concat()]);
        answers
    }

    /// Appends the answer to a command, and says how many rows of `c` are in it.
    fn push(&self, answer: &mut Vec<u8>, command: u8, rest: &[u8], statements: &mut Vec<bool>) -> u64 {
        let before = answer.len();
        match command {
            QUERY => answer.extend_from_slice(&self.query(&String::from_utf8_lossy(rest))),
            STMT_PREPARE => answer.extend_from_slice(&self.prepare(&String::from_utf8_lossy(rest), statements)),
            STMT_EXECUTE => {
                let statement = rest.first_chunk().map_or(u32::MAX, |number| u32::from_le_bytes(*number));
                match statements.get((statement as usize).wrapping_sub(1)) {
                    Some(true) => answer.extend_from_slice(&self.binary_row),
                    Some(false) => answer.extend_from_slice(&self.ok),
                    None => push_packet(answer, 1, &error(1243, "HY000", "Unknown prepared statement")),
                }
            }
            PING | INIT_DB => answer.extend_from_slice(&self.ok),
            _ => push_packet(answer, 1, &error(1047, "08S01", "Unknown command")),
        }
        let answer = &answer[before..];
        u64::from(answer == self.text_row || answer == self.binary_row)
    }

    fn query(&self, sql: &str) -> std::borrow::Cow<'_, [u8]> {
        let quoted = || sql.split('\'').skip(1).step_by(2);
        if sql.contains("information_schema.columns") {
            // The query names its tables twice.
            let names: BTreeSet<&str> = quoted().collect();
            let rows = names.iter().flat_map(|name| ["id", "k", "c", "pad"].map(|column| text_row(&[name, column])));
            self.result(&["table_name", "column_name"], &rows.collect::<Vec<_>>()).into()
        } else if sql.contains("information_schema.statistics") {
            let rows = quoted().flat_map(|name| ["id", "k"].map(|column| text_row(&[name, column])));
            self.result(&["table_name", "columns"], &rows.collect::<Vec<_>>()).into()
        } else if sql.contains("MIN(id), MAX(id)") {
            let rows: Vec<Vec<u8>> = quoted().map(|name| text_row(&[name, "1", &TABLE_ROWS.to_string()])).collect();
            self.result(&["name", "first", "last"], &rows).into()
        } else if sql.starts_with("SHOW GLOBAL STATUS") {
            self.statuses.update(|times| times + 1);
            let rows = status(self.statuses.get()).map(|(name, value)| text_row(&[name, &value.to_string()]));
            self.result(&["Variable_name", "Value"], &rows).into()
        } else if sql.starts_with("SHOW") {
            self.result(&["Variable_name", "Value"], &[]).into()
        } else if is_select(sql) {
            (&self.text_row[..]).into()
        } else {
            (&self.ok[..]).into()
        }
    }

    fn prepare(&self, sql: &str, statements: &mut Vec<bool>) -> Vec<u8> {
        let columns = u8::from(is_select(sql));
        statements.push(is_select(sql));
        // No statement of sysbench's has one inside a text.
        let parameters = sql.bytes().filter(|byte| *byte == b'?').count() as u16;
        let mut packets = Packets::default();
        let (number, count) = ((statements.len() as u32).to_le_bytes(), parameters.to_le_bytes());
        packets.push(&[&[0], &number[..], &[columns, 0], &count, &[0, 0, 0]].concat());
        let parameters: Vec<&str> = (0..parameters).map(|_| "?").collect();
        for columns in [&parameters[..], if columns == 1 { &["c"] } else { &[] }] {
            self.push_columns(&mut packets, columns);
        }
        packets.bytes
    }

    fn result(&self, columns: &[&str], rows: &[Vec<u8>]) -> Vec<u8> {
        let mut packets = Packets::default();
        packets.push(&[columns.len() as u8]);
        self.push_columns(&mut packets, columns);
        for row in rows {
            packets.push(row);
        }
        if self.deprecate_eof {
            packets.push(&[0xfe, 0, 0, STATUS[0], STATUS[1], 0, 0]);
        } else {
            packets.push(&EOF);
        }
        packets.bytes
    }

    fn push_columns(&self, packets: &mut Packets, columns: &[&str]) {
        for column in columns {
            packets.push(&column_definition(column));
        }
        if !columns.is_empty() && !self.deprecate_eof {
            packets.push(&EOF);
        }
    }
}

const EOF: [u8; 5] = [0xfe, 0, 0, STATUS[0], STATUS[1]];

fn is_select(sql: &str) -> bool {
    sql.get(..6).is_some_and(|word| word.eq_ignore_ascii_case("SELECT"))
}

/// The packets of one answer, which count from 1.
#[derive(Default)]
struct Packets {
    bytes: Vec<u8>,
    count: u8,
}

impl Packets {
    fn push(&mut self, payload: &[u8]) {
        self.count = self.count.wrapping_add(1);
        push_packet(&mut self.bytes, self.count, payload);
    }
}

fn push_packet(out: &mut Vec<u8>, sequence: u8, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_le_bytes()[..3]);
    out.push(sequence);
    out.extend_from_slice(payload);
}

fn greeting() -> Vec<u8> {
    let nonce = b"thequickbrownfoxjump";
    let flags = CAPABILITIES.to_le_bytes();
    let mut payload = b"\x0a8.0.0-null\0".to_vec();
    // The connection's number, which nobody asks for.
    payload.extend_from_slice(&1u32.to_le_bytes());
    payload.extend_from_slice(&nonce[..8]);
    payload.push(0);
    payload.extend_from_slice(&flags[..2]);
    payload.push(COLLATION);
    payload.extend_from_slice(&STATUS);
    payload.extend_from_slice(&flags[2..]);
    payload.push(nonce.len() as u8 + 1);
    payload.extend_from_slice(&[0; 10]);
    payload.extend_from_slice(&nonce[8..]);
    payload.push(0);
    payload.extend_from_slice(b"mysql_native_password\0");
    payload
}

fn error(code: u16, sqlstate: &str, message: &str) -> Vec<u8> {
    [&[0xff], &code.to_le_bytes()[..], b"#", sqlstate.as_bytes(), message.as_bytes()].concat()
}

/// A text of up to 250 bytes after its length.
fn push_short_text(out: &mut Vec<u8>, text: &str) {
    out.push(text.len() as u8);
    out.extend_from_slice(text.as_bytes());
}

fn text_row(values: &[&str]) -> Vec<u8> {
    let mut payload = Vec::new();
    for value in values {
        push_short_text(&mut payload, value);
    }
    payload
}

/// A column of CHAR(120), as `c` is.
fn column_definition(name: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    for text in ["def", "sbtest", "sbtest1", "sbtest1", name, name] {
        push_short_text(&mut payload, text);
    }
    payload.extend_from_slice(&[0x0c, COLLATION, 0]);
    payload.extend_from_slice(&480u32.to_le_bytes());
    // Flags and decimals, of which there are none, and filling.
    payload.extend_from_slice(&[TYPE_STRING, 0, 0, 0, 0, 0]);
    payload
}

/// Appends bytes that look random and are the same each time (xorshift64).
fn push_garbage(out: &mut Vec<u8>, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    out.extend((0..GARBAGE_BYTES).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    }));
}
