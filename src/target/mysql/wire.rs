//! Packets of the MySQL client/server protocol as bytes: how they are framed, and what those of the login, the commands
//! and the errors hold. What a command answers is in [`response`](super::response).
//!
//! Every function here is pure, apart from [`send`], which writes to whatever it is given. Nothing that a server sends
//! can make one panic or allocate more than it sent.
//!
//! Facts are from the documentation of the servers, named at each by its page:
//! `dev:` is dev.mysql.com/doc/dev/mysql-server/latest/, `kb:` is mariadb.com/kb/en/.
//!
//! Must not import: anything that does I/O or measures.

use std::io::{self, Write};

use crate::workload::plan::{Argument, Arguments};

/// What a server sent that it must not, or an error that it reports.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    #[error(transparent)]
    Server(#[from] ServerError),
    /// Says what is wrong; nothing after it can be understood.
    #[error("the server broke the protocol: {0}")]
    Violation(&'static str),
}

/// An ERR packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ServerError {
    pub code: u16,
    /// Empty where the server sent none, as before the login.
    pub sqlstate: String,
    pub message: String,
    /// Whether it came when it was not its turn, which a server does just before it closes a connection.
    pub unsolicited: bool,
}

/// Length and sequence number before each packet (dev:page_protocol_basic_packets.html).
pub const HEADER: usize = 4;
/// A packet of this length is followed by more of the same payload, be it empty.
pub const FULL: usize = 0xff_ffff;

/// Capability flags (dev:group__group__cs__capabilities__flags.html).
pub mod capability {
    use crate::spec::Algorithm;

    /// MariaDB calls it CLIENT_MYSQL and takes a client without it to know MariaDB's own flags (kb:connection).
    pub const LONG_PASSWORD: u32 = 1;
    /// Asked for only by a session, so that an UPDATE tells the rows it found and not those it changed.
    pub const FOUND_ROWS: u32 = 1 << 1;
    pub const LONG_FLAG: u32 = 1 << 2;
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    /// Compression by zlib.
    pub const COMPRESS: u32 = 1 << 5;
    /// Asked for only by a connection that loads.
    pub const LOCAL_FILES: u32 = 1 << 7;
    pub const PROTOCOL_41: u32 = 1 << 9;
    pub const SSL: u32 = 1 << 11;
    pub const TRANSACTIONS: u32 = 1 << 13;
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    /// sysbench asks for it too.
    pub const MULTI_STATEMENTS: u32 = 1 << 16;
    pub const MULTI_RESULTS: u32 = 1 << 17;
    pub const PS_MULTI_RESULTS: u32 = 1 << 18;
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    pub const PLUGIN_AUTH_LENENC_CLIENT_DATA: u32 = 1 << 21;
    pub const DEPRECATE_EOF: u32 = 1 << 24;
    pub const ZSTD_COMPRESSION_ALGORITHM: u32 = 1 << 26;

    /// Without these there is no conversation; every server since MySQL 4.1 has them.
    pub const NEEDED: u32 = PROTOCOL_41 | SECURE_CONNECTION;
    /// Used where the server has them. Not asked for, since nothing here would look at what they bring: session
    /// tracking, connection attributes, optional metadata, files of the client, MariaDB's extensions.
    pub const WANTED: u32 = NEEDED
        | LONG_PASSWORD
        | LONG_FLAG
        | CONNECT_WITH_DB
        | TRANSACTIONS
        | MULTI_STATEMENTS
        | MULTI_RESULTS
        | PS_MULTI_RESULTS
        | PLUGIN_AUTH
        | PLUGIN_AUTH_LENENC_CLIENT_DATA
        | DEPRECATE_EOF;

    /// Asked for only where it is wanted. With both of them a server takes zlib (dev:page_protocol_basic_compression.html).
    pub fn compression(algorithm: Algorithm) -> u32 {
        match algorithm {
            Algorithm::Zlib => COMPRESS,
            Algorithm::Zstd => ZSTD_COMPRESSION_ALGORITHM,
        }
    }
}

/// Commands (dev:page_protocol_command_phase.html).
pub mod command {
    pub const QUIT: u8 = 0x01;
    pub const QUERY: u8 = 0x03;
    pub const PING: u8 = 0x0e;
    pub const STMT_PREPARE: u8 = 0x16;
    pub const STMT_EXECUTE: u8 = 0x17;
    pub const STMT_CLOSE: u8 = 0x19;
}

/// First bytes that tell packets apart (dev:page_protocol_basic_response_packets.html).
pub mod mark {
    pub const OK: u8 = 0x00;
    /// More data of the login; also the client's request for sha256_password's public key.
    pub const AUTH_MORE: u8 = 0x01;
    /// A request for a file of the client.
    pub const LOCAL_INFILE: u8 = 0xfb;
    /// EOF, or the OK that replaces it, or at the login another method.
    pub const END: u8 = 0xfe;
    pub const ERR: u8 = 0xff;
}

/// Of field types, those that arguments are sent as (dev:field__types_8h.html).
const TYPE_LONGLONG: u8 = 0x08;
const TYPE_VAR_STRING: u8 = 0xfd;

/// utf8mb4_general_ci, which every server knows since MySQL 5.5.
const COLLATION: u8 = 45;
/// The largest packet this client would take; the same as libmysqlclient's upper bound.
const LARGEST_PACKET: u32 = 1 << 30;
/// Level of zstd, for both sides; the default of MySQL's client.
pub const ZSTD_LEVEL: u8 = 3;

/// Reads a payload from its front; each read gives `None` at the end.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A length-encoded integer (dev:page_protocol_basic_dt_integers.html). 0xfb and 0xff are none.
    pub fn lenenc(&mut self) -> Option<u64> {
        match self.u8()? {
            small @ ..=0xfa => Some(u64::from(small)),
            0xfc => self.u16().map(u64::from),
            0xfd => self.array().map(|[a, b, c]| u64::from(u32::from_le_bytes([a, b, c, 0]))),
            0xfe => self.array().map(u64::from_le_bytes),
            0xfb | 0xff => None,
        }
    }

    /// Bytes up to a zero, which is skipped.
    pub fn until_zero(&mut self) -> Option<&'a [u8]> {
        let length = self.0.iter().position(|&byte| byte == 0)?;
        let front = self.take(length);
        self.0 = &self.0[1..];
        front
    }
}

/// Appends a length-encoded integer.
pub fn push_lenenc(out: &mut Vec<u8>, number: usize) {
    match number {
        ..=0xfa => out.push(number as u8),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(number as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&number.to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&(number as u64).to_le_bytes());
        }
    }
}

/// Empties `out` and leaves room for a packet's header; the payload is appended, then [`send`] completes the header.
pub fn start(out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; HEADER]);
}

/// Sends the payload behind the room for a header, in one write, or cut into full packets. Gives the sequence number
/// that the answer begins with.
pub fn send(out: &mut [u8], mut sequence: u8, stream: &mut impl Write) -> io::Result<u8> {
    let mut at = 0;
    loop {
        let length = (out.len() - HEADER - at).min(FULL);
        // The header of a later packet takes the place of bytes that are sent already.
        out[at..at + 3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
        out[at + 3] = sequence;
        stream.write_all(&out[at..at + HEADER + length])?;
        sequence = sequence.wrapping_add(1);
        if length < FULL {
            stream.flush()?;
            return Ok(sequence);
        }
        at += length;
    }
}

/// The length of a packet by its header.
pub fn packet_length(header: &[u8; HEADER]) -> usize {
    u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize
}

/// Characters of an error's message that are kept: MySQL's have no more, but Vitess's repeat the whole statement.
const LONGEST_MESSAGE: usize = 512;

/// The payload of an ERR packet (dev:page_protocol_basic_err_packet.html). Before the login it has no SQLSTATE; errors
/// that also come later get the one that they have then, so that they are counted as one.
pub fn server_error(payload: &[u8], unsolicited: bool) -> ServerError {
    let mut bytes = Bytes(payload.get(1..).unwrap_or_default());
    let code = bytes.u16().unwrap_or_default();
    let mut sqlstate = match code {
        1040 => "08004",
        1053 => "08S01",
        _ => "",
    };
    if let [b'#', state @ ..] = bytes.0
        && let Some((state, message)) = state.split_at_checked(5)
    {
        sqlstate = str::from_utf8(state).unwrap_or_default();
        bytes.0 = message;
    }
    let text = String::from_utf8_lossy(bytes.0);
    let mut message: String = text.chars().take(LONGEST_MESSAGE).collect();
    if message.len() < text.len() {
        message.push('…');
    }
    ServerError { code, sqlstate: sqlstate.into(), message, unsolicited }
}

/// What a server says first (dev:page_protocol_connection_phase_packets_protocol_handshake_v10.html).
///
/// Its version, before which MariaDB puts `5.5.5-`, is skipped: the flags tell what a server can do.
#[derive(Debug)]
pub struct Greeting {
    pub capabilities: u32,
    pub nonce: Vec<u8>,
    /// The method by which the server would like the client to log in; empty if it names none.
    pub plugin: String,
}

impl Greeting {
    pub fn parse(payload: &[u8]) -> Result<Greeting, WireError> {
        match payload.first() {
            Some(&mark::ERR) => return Err(server_error(payload, false).into()),
            Some(10) => {}
            _ => return Err(WireError::Violation("its first packet is not a handshake of version 10")),
        }
        let greeting = Greeting::fields(Bytes(&payload[1..]))
            .ok_or(WireError::Violation("its handshake ends before its fields are complete"))?;
        if greeting.capabilities & capability::NEEDED != capability::NEEDED {
            return Err(WireError::Violation("it is older than MySQL 4.1, or no MySQL server"));
        }
        Ok(greeting)
    }

    fn fields(mut bytes: Bytes<'_>) -> Option<Greeting> {
        let _version = bytes.until_zero()?;
        let _connection_id = bytes.u32()?;
        let mut nonce = bytes.take(8)?.to_vec();
        let _filler = bytes.u8()?;
        let lower = bytes.u16()?;
        let _collation = bytes.u8()?;
        let _status = bytes.u16()?;
        let upper = bytes.u16()?;
        let capabilities = u32::from(upper) << 16 | u32::from(lower);
        let nonce_length = usize::from(bytes.u8()?);
        // MariaDB keeps its own capabilities in the last four of these, none of which is wanted.
        let _reserved = bytes.take(10)?;
        let rest = bytes.take(nonce_length.saturating_sub(8).max(13))?;
        // The last byte is a zero that belongs to no nonce.
        nonce.extend_from_slice(&rest[..rest.len() - 1]);
        let plugin = match capabilities & capability::PLUGIN_AUTH {
            0 => "",
            // Some old servers leave out the zero at the end.
            _ => str::from_utf8(bytes.until_zero().unwrap_or(bytes.0)).ok()?,
        };
        Some(Greeting { capabilities, nonce, plugin: plugin.into() })
    }
}

/// What the client asks for, and so what the server will do.
fn push_client(out: &mut Vec<u8>, capabilities: u32) {
    out.extend_from_slice(&capabilities.to_le_bytes());
    out.extend_from_slice(&LARGEST_PACKET.to_le_bytes());
    out.push(COLLATION);
    out.extend_from_slice(&[0; 23]);
}

/// Asks for TLS (dev:page_protocol_connection_phase_packets_protocol_ssl_request.html).
pub fn ssl_request(out: &mut Vec<u8>, capabilities: u32) {
    start(out);
    push_client(out, capabilities);
}

/// Logs in (dev:page_protocol_connection_phase_packets_protocol_handshake_response.html).
pub fn login(out: &mut Vec<u8>, capabilities: u32, user: &str, database: &str, plugin: &str, answer: &[u8]) {
    start(out);
    push_client(out, capabilities);
    push_text(out, user);
    // Up to 250 bytes this is the same with and without PLUGIN_AUTH_LENENC_CLIENT_DATA.
    push_lenenc(out, answer.len());
    out.extend_from_slice(answer);
    if capabilities & capability::CONNECT_WITH_DB != 0 {
        push_text(out, database);
    }
    if capabilities & capability::PLUGIN_AUTH != 0 {
        push_text(out, plugin);
    }
    if capabilities & capability::ZSTD_COMPRESSION_ALGORITHM != 0 {
        out.push(ZSTD_LEVEL);
    }
}

/// A text with a zero at its end.
fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Another method of login, with its nonce (dev:page_protocol_connection_phase_packets_protocol_auth_switch_request.html).
pub fn auth_switch(payload: &[u8]) -> Result<(&str, &[u8]), WireError> {
    let mut bytes = Bytes(payload.get(1..).unwrap_or_default());
    let plugin = bytes
        .until_zero()
        .ok_or(WireError::Violation("it wants the password hash of before MySQL 4.1, or a login that has no name"))?;
    let plugin = str::from_utf8(plugin).map_err(|_| WireError::Violation("its login method has no readable name"))?;
    Ok((plugin, bytes.0))
}

/// Executes a prepared statement (dev:page_protocol_com_stmt_execute.html).
///
/// Types are sent each time, though a server would remember them: one statement may be given a number here and a text
/// there, and two bytes an argument are less than what telling the difference would cost.
pub fn execute(out: &mut Vec<u8>, statement: u32, arguments: Arguments<'_>) {
    start(out);
    out.push(command::STMT_EXECUTE);
    out.extend_from_slice(&statement.to_le_bytes());
    // No cursor, and one iteration.
    out.extend_from_slice(&[0, 1, 0, 0, 0]);
    let count = arguments.iter().count();
    if count == 0 {
        return;
    }
    // No argument is NULL, so their bitmap is all zeros.
    out.resize(out.len() + count.div_ceil(8), 0);
    let types_follow = 1;
    out.push(types_follow);
    let mut at = out.len();
    out.resize(at + 2 * count, 0);
    for argument in arguments.iter() {
        out[at] = match argument {
            Argument::Int(number) => {
                out.extend_from_slice(&number.to_le_bytes());
                TYPE_LONGLONG
            }
            // 0 asks for the next value, and is what sysbench sends.
            Argument::Auto => {
                out.extend_from_slice(&0i64.to_le_bytes());
                TYPE_LONGLONG
            }
            Argument::Text(text) => {
                push_lenenc(out, text.len());
                out.extend_from_slice(text.as_bytes());
                TYPE_VAR_STRING
            }
        };
        at += 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::workload::plan::Value;

    /// The example of dev:page_protocol_connection_phase_packets_protocol_handshake_v10.html, of MySQL 5.5.2.
    const GREETING: &[u8] = b"\x0a5.5.2-m2\0\x0b\0\0\0\x64\x76\x48\x40\x49\x2d\x43\x4a\0\xff\xf7\x08\x02\0\x0f\x80\x15\
        \0\0\0\0\0\0\0\0\0\0\x2a\x34\x64\x7c\x63\x5a\x77\x6b\x34\x5e\x5d\x3a\0mysql_native_password\0";

    #[test]
    fn a_documented_greeting_is_understood() {
        let greeting = Greeting::parse(GREETING).unwrap();
        assert_eq!(greeting.nonce, b"dvH@I-CJ*4d|cZwk4^]:");
        assert_eq!(greeting.plugin, "mysql_native_password");
        assert_eq!(greeting.capabilities, 0x800f_f7ff);
    }

    #[test]
    fn an_error_in_place_of_a_greeting_is_an_error_of_the_server() {
        let error = Greeting::parse(b"\xff\x10\x04Too many connections").unwrap_err();
        assert_eq!(error.to_string(), "Too many connections");
        let WireError::Server(error) = error else { panic!("{error:?}") };
        assert_eq!((error.code, error.sqlstate.as_str()), (1040, "08004"));
        let error = server_error(b"\xff\x48\x04#HY000No tables used", false);
        assert_eq!((error.code, error.sqlstate.as_str(), error.message.as_str()), (1096, "HY000", "No tables used"));
    }

    #[test]
    fn whatever_greets_that_is_no_mysql_server_is_refused() {
        for greeting in [&b""[..], b"SSH-2.0-OpenSSH_9.2p1\r\n", b"\x09old", &GREETING[..40]] {
            assert!(matches!(Greeting::parse(greeting), Err(WireError::Violation(_))), "{greeting:?}");
        }
    }

    #[test]
    fn arguments_are_sent_with_their_types() {
        let values = [Value::Int(-2), Value::Text { start: 0, end: 3 }, Value::Auto];
        let mut out = Vec::new();
        execute(&mut out, 0x0102_0304, Arguments::of(&values, "abc"));
        let expected = b"\0\0\0\0\x17\x04\x03\x02\x01\0\x01\0\0\0\0\x01\x08\0\xfd\0\x08\0\
            \xfe\xff\xff\xff\xff\xff\xff\xff\x03abc\0\0\0\0\0\0\0\0";
        assert_eq!(out, expected);
        execute(&mut out, 1, Arguments::of(&[], ""));
        assert_eq!(out, b"\0\0\0\0\x17\x01\0\0\0\0\x01\0\0\0");
    }

    #[test]
    fn payloads_of_any_length_are_cut_into_packets_and_always_end_with_one_that_is_not_full() {
        for length in [0, 1, FULL - 1, FULL, FULL + 1, 2 * FULL] {
            let mut out = Vec::new();
            start(&mut out);
            out.extend((0..length).map(|at| (at % 251) as u8));
            let mut sent = Vec::new();
            let next = send(&mut out, 0, &mut sent).unwrap();
            let (mut rest, mut payload, mut packets) = (&sent[..], Vec::new(), 0);
            loop {
                let (header, after) = rest.split_first_chunk().unwrap();
                let (part, after) = after.split_at(packet_length(header));
                assert_eq!(header[3], packets);
                payload.extend_from_slice(part);
                packets += 1;
                rest = after;
                if part.len() < FULL {
                    break;
                }
            }
            assert!(rest.is_empty());
            assert_eq!(usize::from(packets), length / FULL + 1);
            assert_eq!(next, packets);
            assert!(payload.into_iter().enumerate().all(|(at, byte)| byte == (at % 251) as u8));
        }
    }

    proptest! {
        #[test]
        fn a_length_reads_back_as_it_was_written(number in any::<u32>(), shift in 0u32..32) {
            let number = (number >> shift) as usize;
            let mut out = Vec::new();
            push_lenenc(&mut out, number);
            let mut bytes = Bytes(&out);
            prop_assert_eq!(bytes.lenenc(), Some(number as u64));
            prop_assert!(bytes.0.is_empty());
        }

        #[test]
        fn no_bytes_of_a_server_make_the_login_panic(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Greeting::parse(&payload);
            let _ = Greeting::parse(&[b"\x0a", &payload[..]].concat());
            let _ = auth_switch(&payload);
            let _ = server_error(&payload, false);
        }

        #[test]
        fn a_greeting_cut_anywhere_is_refused_or_means_the_same(length in 0..GREETING.len()) {
            if let Ok(greeting) = Greeting::parse(&GREETING[..length]) {
                prop_assert_eq!(greeting.nonce, b"dvH@I-CJ*4d|cZwk4^]:");
            }
        }
    }
}
