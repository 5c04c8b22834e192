//! The frames of compressed connections: whatever a server sends, and however it is cut, they do not panic, give the same
//! bytes, and no more than their headers claim.
//!
//! Input: a byte for algorithm and room, one for the number of cuts, the lengths of reads, then what the server sends.
#![no_main]

use std::io::{self, Read};

use libfuzzer_sys::fuzz_target;
use oltpbench::spec::Algorithm;
use oltpbench::target::mysql::compress::Frames;

const HEADER: usize = 7;

/// Gives its bytes in parts of these lengths.
struct Cut<'a, L> {
    bytes: &'a [u8],
    lengths: L,
}

impl<L: Iterator<Item = usize>> Read for Cut<'_, L> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.lengths.next().expect("a cycle").min(buffer.len());
        self.bytes.read(&mut buffer[..length])
    }
}

/// What was unpacked, and whether that went well to the end.
fn unpacked(algorithm: Algorithm, bytes: &[u8], lengths: &[usize], room: usize) -> (Vec<u8>, bool) {
    let mut frames = Frames::new(algorithm).expect("memory");
    let mut stream = Cut { bytes, lengths: lengths.iter().copied().cycle() };
    let (mut all, mut window) = (Vec::new(), vec![0; room]);
    loop {
        match frames.read(&mut stream, &mut window) {
            Ok(0) => return (all, true),
            Ok(count) => all.extend_from_slice(&window[..count]),
            Err(_) => return (all, false),
        }
    }
}

/// How many bytes the headers of frames say that these become.
fn claimed(mut bytes: &[u8]) -> usize {
    let mut sum = 0;
    while let Some((header, rest)) = bytes.split_at_checked(HEADER) {
        let length = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], 0]) as usize;
        sum += if length(4) == 0 { length(0) } else { length(4) };
        bytes = rest.get(length(0)..).unwrap_or_default();
    }
    sum
}

fuzz_target!(|input: &[u8]| {
    let [settings, cuts, rest @ ..] = input else { return };
    let Some((lengths, bytes)) = rest.split_at_checked(usize::from(cuts % 8)) else { return };
    let algorithm = if settings & 1 == 0 { Algorithm::Zlib } else { Algorithm::Zstd };
    let lengths: Vec<usize> = lengths.iter().map(|&length| usize::from(length) + 1).chain([1]).collect();

    let (whole, whole_ended) = unpacked(algorithm, bytes, &[bytes.len().max(1)], 16 << 10);
    assert!(whole.len() <= claimed(bytes), "{} bytes of frames that claim fewer", whole.len());
    let (cut, cut_ended) = unpacked(algorithm, bytes, &lengths, 1 + usize::from(settings / 2));
    assert_eq!(cut_ended, whole_ended);
    // What a step made before it found an error is not given.
    if whole_ended {
        assert!(cut == whole);
    } else {
        assert!(cut.starts_with(&whole) || whole.starts_with(&cut));
    }
});
