//! The decoder of answers: whatever a server sends, and however it is cut, it does not panic, means the same and takes
//! no memory that the server has not paid for in bytes.
//!
//! Input: a byte of settings, a byte for the number of cuts, the lengths of reads, then what the server sends.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;
use oltpbench::target::mysql::response::{
    Answer, Expected, LONGEST_INSPECTED, Response, Rows, Skip, Step, TextRow, TextRows,
};
use oltpbench::target::mysql::wire::{HEADER, ServerError};

#[derive(Debug, PartialEq)]
enum End {
    Done(Result<Answer, ServerError>),
    Violation(String),
    CutShort,
}

/// Reads as a connection does, and gives the end with the number of bytes that were used.
fn read(mut response: Response, bytes: &[u8], lengths: &[usize], rows: &mut impl Rows) -> (End, usize) {
    let (mut start, mut end) = (0, 0);
    let mut lengths = lengths.iter().cycle();
    loop {
        let (used, step) = match response.step(&bytes[start..end], rows) {
            Ok(done) => done,
            // What came before it in the same step is not counted.
            Err(violation) => return (End::Violation(violation.to_string()), 0),
        };
        start += used;
        assert!(end - start <= HEADER + LONGEST_INSPECTED, "a receive buffer must be enough");
        match step {
            Step::Done(outcome) => return (End::Done(outcome), start),
            // Our answer counts too, and the server goes on behind it.
            Step::LocalInfile { sequence } => response.answered(sequence.wrapping_add(1)),
            Step::More if end == bytes.len() => return (End::CutShort, start),
            Step::More => end = (end + lengths.next().expect("a cycle")).min(bytes.len()),
        }
    }
}

fn kept(response: Response, bytes: &[u8], lengths: &[usize]) -> (End, usize, Vec<TextRow>) {
    let mut rows = TextRows::default();
    let (end, used) = read(response, bytes, lengths, &mut rows);
    (end, used, rows.rows)
}

fuzz_target!(|input: &[u8]| {
    let [settings, cuts, rest @ ..] = input else { return };
    let Some((lengths, bytes)) = rest.split_at_checked(usize::from(cuts % 8)) else { return };
    let expected = || if settings & 1 == 0 { Expected::Results } else { Expected::Statement };
    let deprecate_eof = settings & 2 != 0;
    let response = || Response::new(expected(), 1, deprecate_eof);
    let lengths: Vec<usize> = lengths.iter().map(|&length| usize::from(length) + 1).chain([1]).collect();

    // An error's message can be lossy UTF-8, in which a byte may become three.
    let (dropped, held) = memory::most_held(|| read(response(), bytes, &[bytes.len().max(1)], &mut Skip));
    assert!(held <= 8 * bytes.len() + 1024, "{held} bytes for {} that are dropped", bytes.len());
    // A NULL is one byte on the wire and a value here, of which a growing list may hold twice as many, twice.
    let (whole, held) = memory::most_held(|| kept(response(), bytes, &[bytes.len().max(1)]));
    assert!(held <= 256 * bytes.len() + 1024, "{held} bytes for {} that are kept", bytes.len());

    assert_eq!(kept(response(), bytes, &lengths), whole);
    assert_eq!(kept(response(), bytes, &[1]), whole);
    assert_eq!(read(response(), bytes, &lengths, &mut Skip), dropped);
    match (&whole.0, &dropped.0) {
        // Rows that are kept must also make sense, and the two need not go wrong at the same place.
        (End::Violation(_), _) => {}
        (kept, dropped) => assert_eq!(kept, dropped),
    }
    if let End::Done(Ok(answer)) = &whole.0 {
        assert_eq!(answer.rows, whole.2.len() as u64);
    }
});
