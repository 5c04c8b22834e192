//! What a server answers to a command, read from bytes as they come: a state machine without a socket.
//!
//! [`Response::step`] is given the bytes that are there and says how many it used and whether it needs more. It keeps no
//! bytes and allocates nothing, save for an error's message. Rows and descriptions of columns, whatever their size, are
//! used up as they come and handed to a [`Rows`], which for a measurement drops them; the few packets that are looked
//! at are small. Where the bytes are cut changes nothing, and no bytes at all can make it panic or spin.
//!
//! Must not import: anything that does I/O or measures.

use super::wire::{Bytes, FULL, HEADER, ServerError, WireError, mark, packet_length, server_error};

/// The longest packet that is looked at as a whole. Of an error, which may repeat a long statement (Vitess), no more than
/// this is looked at, and the rest of them are shorter. A receive buffer must hold one of them with its header.
pub const LONGEST_INSPECTED: usize = 8 << 10;

/// SERVER_MORE_RESULTS_EXISTS and SERVER_STATUS_NO_BACKSLASH_ESCAPES (dev:mysql__com_8h.html).
const MORE_RESULTS: u16 = 8;
const NO_BACKSLASH_ESCAPES: u16 = 0x200;

/// How the values of rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Binary,
}

/// Receives the rows of an answer. What it is not interested in costs nothing, since it is compiled for each receiver.
pub trait Rows {
    /// Told before the command is sent.
    fn expect(&mut self, _form: Form) {}
    /// Some bytes of a column's description, all of which come before the rows.
    fn column_part(&mut self, _bytes: &[u8]) {}
    /// The description is complete.
    fn column_end(&mut self) -> Result<(), WireError> {
        Ok(())
    }
    /// Some bytes of a row. Together they are the packet that the protocol in use defines.
    fn part(&mut self, bytes: &[u8]);
    /// The row is complete.
    fn end(&mut self) -> Result<(), WireError>;
}

/// Drops rows.
pub struct Skip;

impl Rows for Skip {
    fn part(&mut self, _bytes: &[u8]) {}

    fn end(&mut self) -> Result<(), WireError> {
        Ok(())
    }
}

/// A row of the text protocol; NULL is `None`.
pub type TextRow = Vec<Option<Vec<u8>>>;

/// Keeps rows of the text protocol.
#[derive(Default)]
pub struct TextRows {
    packet: Vec<u8>,
    pub rows: Vec<TextRow>,
}

impl Rows for TextRows {
    fn part(&mut self, bytes: &[u8]) {
        self.packet.extend_from_slice(bytes);
    }

    fn end(&mut self) -> Result<(), WireError> {
        let mut bytes = Bytes(&self.packet);
        let mut row = Vec::new();
        while let Some(value) = text_value(&mut bytes)? {
            row.push(value);
        }
        self.rows.push(row);
        self.packet.clear();
        Ok(())
    }
}

/// The next value of a row (dev:page_protocol_com_query_response_text_resultset_row.html); `None` at its end.
fn text_value(bytes: &mut Bytes<'_>) -> Result<Option<Option<Vec<u8>>>, WireError> {
    let null = 0xfb;
    match bytes.0 {
        [] => Ok(None),
        [first, rest @ ..] if *first == null => {
            bytes.0 = rest;
            Ok(Some(None))
        }
        _ => {
            let length = bytes.lenenc().and_then(|length| usize::try_from(length).ok());
            let value = length.and_then(|length| bytes.take(length));
            value.map(|value| Some(Some(value.to_vec()))).ok_or(WireError::Violation("a row ends inside a value"))
        }
    }
}

/// What an answer amounts to, over all its results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Rows that statements changed.
    pub affected: u64,
    /// Warnings of the last statement.
    pub warnings: u16,
    /// Rows that came.
    pub rows: u64,
    /// The prepared statement's number.
    pub statement: u32,
    /// How many arguments the prepared statement takes.
    pub parameters: u16,
    /// The session's status after the last statement.
    status: u16,
}

impl Answer {
    /// Rows that came or were changed.
    pub fn rows_met(&self) -> u64 {
        self.rows.saturating_add(self.affected)
    }

    /// Whether a backslash in a literal is an escape.
    pub fn escapes_by_backslash(&self) -> bool {
        self.status & NO_BACKSLASH_ESCAPES == 0
    }
}

/// What is expected of a command.
#[derive(Clone, Copy, Debug)]
pub enum Expected {
    /// Results of COM_QUERY or COM_STMT_EXECUTE.
    Results,
    /// Of COM_STMT_PREPARE.
    Statement,
}

/// Where a step ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// All that could be used was used.
    More,
    /// The server wants a file, which must be answered with a packet of this sequence number.
    LocalInfile {
        sequence: u8,
    },
    Done(Result<Answer, ServerError>),
}

/// What the next packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first one of a result.
    Result,
    /// The answer to COM_STMT_PREPARE.
    Statement,
    /// A description of a column or of an argument; `left` of them are still to come.
    Definitions { left: u64, next: Next },
    /// The EOF after descriptions, from a server without CLIENT_DEPRECATE_EOF.
    DefinitionsEnd { next: Next },
    /// A row, or the end of the rows.
    Rows,
    /// There is none.
    Done,
}

/// What comes after descriptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Rows,
    Columns(u16),
    Nothing,
}

/// What the present payload is, where it is used up as it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passing {
    Nothing,
    /// The description of a column of rows.
    Column,
    Row,
}

/// The part of one answer that has been read.
#[derive(Debug)]
pub struct Response {
    state: State,
    /// Number of the next packet.
    sequence: u8,
    /// Whether packets must come with the numbers that they should have.
    turns: bool,
    /// Bytes of the present packet that are still to come, which are not looked at.
    left: usize,
    /// Whether the next packet goes on with the payload of the present one.
    continues: bool,
    passing: Passing,
    deprecate_eof: bool,
    answer: Answer,
    /// What the answer is instead, once the rest of its packet is there.
    error: Option<ServerError>,
}

impl Response {
    /// `sequence` is the number of the first packet, and `deprecate_eof` whether that capability was agreed on.
    pub fn new(expected: Expected, sequence: u8, deprecate_eof: bool) -> Response {
        let state = match expected {
            Expected::Results => State::Result,
            Expected::Statement => State::Statement,
        };
        let answer = Answer::default();
        Response {
            state,
            sequence,
            turns: true,
            left: 0,
            continues: false,
            passing: Passing::Nothing,
            deprecate_eof,
            answer,
            error: None,
        }
    }

    /// Takes packets of any number: a server that compresses counts them by its frames, now and then.
    pub fn without_turns(self) -> Response {
        Response { turns: false, ..self }
    }

    /// Reads on. Gives the number of bytes that are used up; those after them are to be given again, with more behind
    /// them, if [`Step::More`] is the outcome.
    pub fn step(&mut self, bytes: &[u8], rows: &mut impl Rows) -> Result<(usize, Step), WireError> {
        let mut used = 0;
        loop {
            used += self.skip(&bytes[used..], rows)?;
            if self.left > 0 {
                return Ok((used, Step::More));
            }
            if self.state == State::Done && !self.continues {
                return Ok((used, Step::Done(self.error.take().map_or(Ok(self.answer), Err))));
            }
            let Some((header, payload)) = bytes[used..].split_first_chunk() else {
                return Ok((used, Step::More));
            };
            let length = packet_length(header);
            let in_turn = header[3] == self.sequence || !self.turns;
            if self.continues {
                self.begin(length, in_turn)?;
                used += HEADER;
                continue;
            }
            if length == 0 {
                return Err(WireError::Violation("an empty packet"));
            }
            let Some(&first) = payload.first() else { return Ok((used, Step::More)) };
            if self.skipped(first, length) {
                self.begin(length, in_turn)?;
                used += HEADER;
                continue;
            }
            let looked_at = length.min(LONGEST_INSPECTED);
            let Some(payload) = payload.get(..looked_at) else { return Ok((used, Step::More)) };
            used += HEADER + looked_at;
            if first == mark::ERR {
                // A server that ends a connection says why, whoever's turn it is.
                self.error = Some(server_error(payload, !in_turn));
                (self.state, self.sequence) = (State::Done, header[3].wrapping_add(1));
                (self.left, self.continues) = (length - looked_at, length == FULL);
                continue;
            }
            if looked_at < length {
                return Err(WireError::Violation("a packet longer than its kind can be"));
            }
            self.take_turn(in_turn)?;
            if self.inspect(first, payload)? {
                return Ok((used, Step::LocalInfile { sequence: self.sequence }));
            }
        }
    }

    /// Goes on after a packet was sent in the middle of the answer, from which on the server counts.
    pub fn answered(&mut self, sequence: u8) {
        self.sequence = sequence;
    }

    /// Uses up what is left of the present packet, and ends the row or the description if that is its end.
    fn skip(&mut self, bytes: &[u8], rows: &mut impl Rows) -> Result<usize, WireError> {
        let taken = self.left.min(bytes.len());
        self.left -= taken;
        let ends = self.left == 0 && !self.continues;
        match self.passing {
            Passing::Nothing => {}
            Passing::Row => {
                rows.part(&bytes[..taken]);
                if ends {
                    self.passing = Passing::Nothing;
                    self.answer.rows += 1;
                    rows.end()?;
                }
            }
            Passing::Column => {
                rows.column_part(&bytes[..taken]);
                if ends {
                    self.passing = Passing::Nothing;
                    rows.column_end()?;
                }
            }
        }
        Ok(taken)
    }

    /// Begins a packet that is not looked at.
    fn begin(&mut self, length: usize, in_turn: bool) -> Result<(), WireError> {
        self.left = length;
        self.continues = length == FULL;
        self.take_turn(in_turn)
    }

    fn take_turn(&mut self, in_turn: bool) -> Result<(), WireError> {
        if !in_turn {
            return Err(WireError::Violation("packets out of order"));
        }
        self.sequence = self.sequence.wrapping_add(1);
        Ok(())
    }

    /// Whether a packet that begins so is a row or a description, neither of which is looked at.
    fn skipped(&mut self, first: u8, length: usize) -> bool {
        if first == mark::ERR {
            return false;
        }
        match self.state {
            State::Definitions { left, next } => {
                self.described(left - 1, next);
                if next == Next::Rows {
                    self.passing = Passing::Column;
                }
                true
            }
            // A row can begin with the same byte as the end of rows, if its first value has 16 MiB; then it is full.
            State::Rows if first != mark::END || length == FULL => {
                self.passing = Passing::Row;
                true
            }
            _ => false,
        }
    }

    /// Goes on with `left` descriptions still to come.
    fn described(&mut self, left: u64, next: Next) {
        self.state = match left {
            0 if self.deprecate_eof => next.state(),
            0 => State::DefinitionsEnd { next },
            left => State::Definitions { left, next },
        };
    }

    /// Looks at a packet that is neither error, row nor description. Gives whether the server wants a file.
    fn inspect(&mut self, first: u8, payload: &[u8]) -> Result<bool, WireError> {
        let mut bytes = Bytes(&payload[1..]);
        match (self.state, first) {
            (State::Result, mark::OK) => self.ok(bytes)?,
            (State::Result, mark::LOCAL_INFILE) => return Ok(true),
            (State::Result, mark::END) => return Err(WireError::Violation("an end without a result before it")),
            (State::Result, _) => match Bytes(payload).lenenc() {
                Some(columns @ 1..) => self.state = State::Definitions { left: columns, next: Next::Rows },
                _ => return Err(WireError::Violation("a result without a number of columns")),
            },
            (State::Statement, mark::OK) => self.prepared(bytes)?,
            (State::DefinitionsEnd { next }, mark::END) => self.state = next.state(),
            (State::Rows, mark::END) if self.deprecate_eof => self.ok(bytes)?,
            // EOF: warnings, then the status (dev:page_protocol_basic_eof_packet.html).
            (State::Rows, mark::END) => {
                let _warnings = bytes.u16();
                self.result_ended(bytes.u16().ok_or(WireError::Violation("an EOF without a status"))?);
            }
            _ => return Err(WireError::Violation("a packet that does not belong there")),
        }
        Ok(false)
    }

    /// OK: rows changed, last id, status, warnings (dev:page_protocol_basic_ok_packet.html).
    fn ok(&mut self, mut bytes: Bytes<'_>) -> Result<(), WireError> {
        let fields = (bytes.lenenc(), bytes.lenenc(), bytes.u16());
        let (Some(affected), Some(_last_id), Some(status)) = fields else {
            return Err(WireError::Violation("an OK without a status"));
        };
        self.answer.affected = self.answer.affected.saturating_add(affected);
        self.answer.warnings = bytes.u16().unwrap_or(0);
        self.result_ended(status);
        Ok(())
    }

    fn result_ended(&mut self, status: u16) {
        self.answer.status = status;
        self.state = if status & MORE_RESULTS == 0 { State::Done } else { State::Result };
    }

    /// COM_STMT_PREPARE_OK, then the descriptions of arguments and of columns (dev:page_protocol_com_stmt_prepare.html).
    fn prepared(&mut self, mut bytes: Bytes<'_>) -> Result<(), WireError> {
        let fields = (bytes.u32(), bytes.u16(), bytes.u16());
        let (Some(statement), Some(columns), Some(parameters)) = fields else {
            return Err(WireError::Violation("a prepared statement without a number"));
        };
        (self.answer.statement, self.answer.parameters) = (statement, parameters);
        self.state = match parameters {
            0 => Next::Columns(columns).state(),
            left => State::Definitions { left: u64::from(left), next: Next::Columns(columns) },
        };
        Ok(())
    }
}

impl Next {
    fn state(self) -> State {
        match self {
            Next::Rows => State::Rows,
            Next::Columns(0) | Next::Nothing => State::Done,
            Next::Columns(left) => State::Definitions { left: u64::from(left), next: Next::Nothing },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::target::mysql::wire;

    /// One result of an answer, as a server would have it.
    #[derive(Clone, Debug)]
    enum Sent {
        Changed(u64),
        /// The server asks for a file, and so many rows come of it.
        Loaded(u64),
        Rows {
            columns: usize,
            rows: Vec<TextRow>,
        },
        /// Nothing follows it.
        Failed(u16),
    }

    /// How many packets a client sends in place of a file.
    const FILE_PACKETS: u8 = 3;
    const MESSAGE: &str = "it does not work";

    /// An answer as it goes over the wire.
    struct Writer {
        bytes: Vec<u8>,
        sequence: u8,
        deprecate_eof: bool,
    }

    impl Writer {
        fn new(deprecate_eof: bool) -> Writer {
            Writer { bytes: Vec::new(), sequence: 1, deprecate_eof }
        }

        fn packet(&mut self, payload: &[u8]) {
            let mut out = Vec::new();
            wire::start(&mut out);
            out.extend_from_slice(payload);
            self.sequence = wire::send(&mut out, self.sequence, &mut self.bytes).unwrap();
        }

        fn ok(&mut self, mark: u8, affected: u64, status: u16) {
            let mut payload = vec![mark];
            wire::push_lenenc(&mut payload, affected as usize);
            payload.push(0);
            payload.extend_from_slice(&status.to_le_bytes());
            payload.extend_from_slice(&[0, 0]);
            self.packet(&payload);
        }

        fn end(&mut self, status: u16) {
            let [low, high] = status.to_le_bytes();
            match self.deprecate_eof {
                true => self.ok(mark::END, 0, status),
                false => self.packet(&[mark::END, 0, 0, low, high]),
            }
        }

        fn definitions(&mut self, count: usize) {
            (0..count).for_each(|_| self.packet(b"\x03def\x04some\x05thing"));
            if count > 0 && !self.deprecate_eof {
                self.end(0);
            }
        }

        fn row(&mut self, row: &TextRow) {
            let mut payload = Vec::new();
            for value in row {
                match value {
                    None => payload.push(0xfb),
                    Some(value) => {
                        wire::push_lenenc(&mut payload, value.len());
                        payload.extend_from_slice(value);
                    }
                }
            }
            self.packet(&payload);
        }

        fn results(mut self, results: &[Sent]) -> Vec<u8> {
            for (at, result) in results.iter().enumerate() {
                let status = if at + 1 < results.len() { MORE_RESULTS } else { 0 };
                match result {
                    Sent::Changed(affected) => self.ok(mark::OK, *affected, status),
                    Sent::Loaded(affected) => {
                        self.packet(b"\xfb/a/file");
                        self.sequence = self.sequence.wrapping_add(FILE_PACKETS);
                        self.ok(mark::OK, *affected, status);
                    }
                    Sent::Failed(code) => {
                        self.packet(&[&[mark::ERR], &code.to_le_bytes()[..], b"#HY000", MESSAGE.as_bytes()].concat());
                    }
                    Sent::Rows { columns, rows } => {
                        let mut count = Vec::new();
                        wire::push_lenenc(&mut count, *columns);
                        self.packet(&count);
                        self.definitions(*columns);
                        rows.iter().for_each(|row| self.row(row));
                        self.end(status);
                    }
                }
            }
            self.bytes
        }
    }

    type Outcome = Result<Result<Answer, ServerError>, String>;

    /// Reads as a connection does, with a buffer that is filled by reads of the given lengths, over and over. Gives the
    /// outcome, the rows, and how many bytes were not needed.
    fn read(mut response: Response, bytes: &[u8], lengths: &[usize]) -> (Outcome, Vec<TextRow>, usize) {
        let mut rows = TextRows::default();
        let (mut start, mut end) = (0, 0);
        let mut lengths = lengths.iter().cycle();
        loop {
            let (used, step) = match response.step(&bytes[start..end], &mut rows) {
                Ok(done) => done,
                // Nothing can follow a violation, so what came before it in the same step is not counted.
                Err(error) => return (Err(error.to_string()), rows.rows, 0),
            };
            start += used;
            assert!(end - start <= HEADER + LONGEST_INSPECTED, "a buffer of that size must be enough");
            match step {
                Step::Done(outcome) => return (Ok(outcome), rows.rows, bytes.len() - start),
                Step::LocalInfile { sequence } => response.answered(sequence.wrapping_add(FILE_PACKETS)),
                Step::More if end == bytes.len() => return (Err("cut short".into()), rows.rows, end - start),
                Step::More => end = (end + lengths.next().unwrap()).min(bytes.len()),
            }
        }
    }

    fn results(deprecate_eof: bool) -> Response {
        Response::new(Expected::Results, 1, deprecate_eof)
    }

    /// Results whose values are shorter than this.
    fn sent(length: usize) -> impl Strategy<Value = Vec<Sent>> {
        let value = proptest::option::weighted(0.9, vec(any::<u8>(), 0..length));
        let rows = (1usize..4).prop_flat_map(move |columns| {
            let rows = vec(vec(value.clone(), columns), 0..5);
            rows.prop_map(move |rows| Sent::Rows { columns, rows })
        });
        let results = prop_oneof![
            3 => (0..100_000u64).prop_map(Sent::Changed),
            2 => (0..1000u64).prop_map(Sent::Loaded),
            4 => rows,
            1 => any::<u16>().prop_map(Sent::Failed),
        ];
        vec(results, 1..5).prop_map(|mut results| {
            let failed = results.iter().position(|result| matches!(result, Sent::Failed(_)));
            results.truncate(failed.map_or(results.len(), |at| at + 1));
            results
        })
    }

    /// What a reader must make of results: all is read, and nothing is left.
    fn expected(sent: &[Sent]) -> (Outcome, Vec<TextRow>, usize) {
        let (mut answer, mut all) = (Answer::default(), Vec::new());
        for result in sent {
            match result {
                Sent::Changed(affected) | Sent::Loaded(affected) => answer.affected += affected,
                Sent::Rows { rows, .. } => all.extend_from_slice(rows),
                Sent::Failed(code) => {
                    let (sqlstate, message) = ("HY000".into(), MESSAGE.into());
                    let error = ServerError { code: *code, sqlstate, message, unsolicited: false };
                    return (Ok(Err(error)), all, 0);
                }
            }
        }
        answer.rows = all.len() as u64;
        (Ok(Ok(answer)), all, 0)
    }

    #[test]
    fn more_rows_than_can_be_counted_are_the_most_that_can() {
        let answer = |rows, affected| Answer { rows, affected, ..Answer::default() };
        assert_eq!(answer(2, 3).rows_met(), 5);
        assert_eq!(answer(2, u64::MAX).rows_met(), u64::MAX);
    }

    proptest! {
        #[test]
        fn what_was_sent_is_what_is_read_wherever_it_is_cut(
            sent in sent(300), deprecate_eof: bool, lengths in vec(1usize..40, 1..20),
        ) {
            let bytes = Writer::new(deprecate_eof).results(&sent);
            let wanted = expected(&sent);
            for lengths in [&lengths[..], &[1], &[bytes.len()]] {
                prop_assert_eq!(&read(results(deprecate_eof), &bytes, lengths), &wanted);
            }
        }

        #[test]
        fn a_single_cut_at_any_byte_changes_nothing(sent in sent(20), deprecate_eof: bool) {
            let bytes = Writer::new(deprecate_eof).results(&sent);
            let wanted = expected(&sent);
            for cut in 1..bytes.len() {
                prop_assert_eq!(&read(results(deprecate_eof), &bytes, &[cut, bytes.len()]), &wanted, "cut at {}", cut);
            }
        }

        #[test]
        fn an_answer_cut_short_is_never_complete(sent in sent(300), deprecate_eof: bool, part in 0.0..1.0f64) {
            let bytes = Writer::new(deprecate_eof).results(&sent);
            let length = (bytes.len() as f64 * part) as usize;
            let (outcome, ..) = read(results(deprecate_eof), &bytes[..length], &[7]);
            prop_assert_eq!(outcome, Err("cut short".into()));
        }

        #[test]
        fn a_prepared_statement_is_read_wherever_it_is_cut(
            parameters in 0u16..5, columns in 0u16..5, deprecate_eof: bool, length in 1usize..40,
        ) {
            let mut writer = Writer::new(deprecate_eof);
            let fields = [&[0, 7, 0, 0, 0][..], &columns.to_le_bytes(), &parameters.to_le_bytes(), &[0; 3]];
            writer.packet(&fields.concat());
            writer.definitions(usize::from(parameters));
            writer.definitions(usize::from(columns));
            let response = Response::new(Expected::Statement, 1, deprecate_eof);
            let answer = Answer { statement: 7, parameters, ..Answer::default() };
            prop_assert_eq!(read(response, &writer.bytes, &[length]), (Ok(Ok(answer)), vec![], 0));
        }

        #[test]
        fn garbage_ends_in_an_answer_or_an_error_and_means_the_same_wherever_it_is_cut(
            mut bytes in vec(prop_oneof![0u8..5, 0xf9u8.., any::<u8>()], 0..400),
            deprecate_eof: bool, statement: bool, ordered: bool,
        ) {
            if ordered {
                // Small packets in the right order come further.
                let (mut at, mut sequence) = (0, 1u8);
                while let Some(header) = bytes.get_mut(at..at + HEADER) {
                    header[0] %= 16;
                    (header[1], header[2], header[3]) = (0, 0, sequence);
                    at += HEADER + usize::from(header[0]);
                    sequence = sequence.wrapping_add(1);
                }
            }
            let expected = if statement { Expected::Statement } else { Expected::Results };
            let response = || Response::new(expected, 1, deprecate_eof);
            let whole = read(response(), &bytes, &[bytes.len().max(1)]);
            prop_assert_eq!(read(response(), &bytes, &[1]), whole);
        }
    }

    #[test]
    fn rows_of_sixteen_mebibytes_and_more_pass_through_a_small_buffer() {
        for length in [FULL - 4, FULL - 5, FULL, 2 * FULL - 4, 17 << 20] {
            let value: Vec<u8> = (0..length).map(|at| (at % 253) as u8).collect();
            let rows = vec![vec![Some(value)], vec![None], vec![Some(b"small".to_vec())]];
            for deprecate_eof in [true, false] {
                let bytes = Writer::new(deprecate_eof).results(&[Sent::Rows { columns: 1, rows: rows.clone() }]);
                let (outcome, got, left) = read(results(deprecate_eof), &bytes, &[16 << 10]);
                assert_eq!(outcome, Ok(Ok(Answer { rows: 3, ..Answer::default() })), "{length}");
                assert!(got == rows, "{length}");
                assert_eq!(left, 0);
            }
        }
    }

    #[test]
    fn full_packets_mean_the_same_cut_at_each_byte_near_their_ends() {
        // The payloads of the long row are one full packet with an empty one behind it, and two with one more byte.
        for (length, deprecate_eof) in [(FULL - 4, true), (2 * FULL + 1 - 9, false)] {
            let value: Vec<u8> = (0..length).map(|at| (at % 253) as u8).collect();
            let rows = vec![vec![Some(value)], vec![None]];
            let mut writer = Writer::new(deprecate_eof);
            writer.packet(&[1]);
            // A description may be as long.
            writer.packet(&vec![b'd'; FULL]);
            if !deprecate_eof {
                writer.end(0);
            }
            rows.iter().for_each(|row| writer.row(row));
            writer.end(0);
            let bytes = writer.bytes;
            let (mut edge, mut edges) = (0, Vec::new());
            while let Some(header) = bytes[edge..].first_chunk() {
                edge += HEADER + wire::packet_length(header);
                edges.push(edge);
            }
            let wanted = (Ok(Ok(Answer { rows: 2, ..Answer::default() })), rows, 0);
            for cut in edges.iter().flat_map(|edge| edge - 2..(edge + HEADER + 2).min(bytes.len())) {
                let got = read(results(deprecate_eof), &bytes, &[cut, bytes.len()]);
                assert!(got == wanted, "{length} bytes, cut at {cut} of {}: {:?}", bytes.len(), got.0);
            }
        }
    }

    #[test]
    fn an_error_ends_an_answer_wherever_it_comes() {
        let error = b"\xff\x25\x05#70100Query execution was interrupted";
        let mut writer = Writer::new(true);
        writer.packet(&[1]);
        writer.definitions(1);
        writer.row(&vec![Some(b"1".to_vec())]);
        writer.packet(error);
        let (outcome, rows, left) = read(results(true), &writer.bytes, &[3]);
        let error = outcome.unwrap().unwrap_err();
        assert_eq!((error.code, error.sqlstate.as_str(), error.unsolicited), (1317, "70100", false));
        assert_eq!((rows.len(), left), (1, 0));
    }

    #[test]
    fn an_error_that_repeats_a_long_statement_is_read_to_its_end_and_cut() {
        let start = b"\xff\x26\x04#23000";
        for length in [LONGEST_INSPECTED - 9, LONGEST_INSPECTED - 8, 1 << 20, FULL - 9, 2 * FULL] {
            let mut writer = Writer::new(true);
            writer.packet(&[1]);
            writer.packet(&[&start[..], &vec![b'x'; length]].concat());
            let bytes = writer.bytes;
            for lengths in [&[1 << 10][..], &[7, 16 << 10], &[bytes.len()]] {
                let (outcome, _, left) = read(results(true), &bytes, lengths);
                let error = outcome.unwrap().unwrap_err();
                assert_eq!((error.code, error.sqlstate.as_str(), left), (1062, "23000", 0), "{length}");
                assert_eq!(error.message, "x".repeat(512) + "…", "{length}");
            }
            let (outcome, ..) = read(results(true), &bytes[..bytes.len() - 1], &[16 << 10]);
            assert_eq!(outcome.unwrap_err(), "cut short");
        }
    }

    #[test]
    fn what_a_closing_server_says_out_of_turn_is_heard() {
        let mut writer = Writer::new(true);
        writer.sequence = 0;
        writer.packet(b"\xff\xbf\x0f#HY000The client was disconnected by the server because of inactivity.");
        let (outcome, ..) = read(results(true), &writer.bytes, &[100]);
        let error = outcome.unwrap().unwrap_err();
        assert!(error.unsolicited && error.code == 4031);
        let mut writer = Writer::new(true);
        writer.sequence = 0;
        writer.ok(mark::OK, 0, 0);
        let (outcome, ..) = read(results(true), &writer.bytes, &[100]);
        assert_eq!(outcome.unwrap_err(), "the server broke the protocol: packets out of order");
    }

    #[test]
    fn a_wish_for_a_file_is_passed_on_with_the_number_its_answer_needs() {
        let mut writer = Writer::new(true);
        writer.packet(b"\xfb/etc/passwd");
        let mut response = results(true);
        let (used, step) = response.step(&writer.bytes, &mut Skip).unwrap();
        assert_eq!((used, step), (writer.bytes.len(), Step::LocalInfile { sequence: 2 }));
    }
}
