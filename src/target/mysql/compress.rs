//! MySQL's compressed protocol: frames around the stream of packets, which may begin and end anywhere in it
//! (dev:page_protocol_basic_compression_packet.html).
//!
//! [`Packer`] and [`Unpacker`] are functions of bytes with what their algorithm must remember; [`Frames`] puts them
//! between a connection and whatever it reads from and writes to. Frames are unpacked as they come, into the room that
//! the caller has, so nothing is allocated by what their headers claim. What zstd's own headers claim makes its decoder
//! allocate the 2 MiB that it may look back at, and a little more, once for a connection. No bytes at all can make it panic
//! or spin.
//!
//! Must not import: anything that does I/O of its own or measures.

use std::io::{self, Read, Write};

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Decoder, Operation};

use super::wire::{FULL, WireError, ZSTD_LEVEL};
use crate::spec::Algorithm;

/// Lengths before and after unpacking, three bytes each, around a sequence number.
const HEADER: usize = 7;
/// What is shorter goes as it is, as with MySQL's own client.
const SHORTEST: usize = 50;
/// Servers compress at the level that the client names, and level 3 looks back 2 MiB at most; the decoder's default takes
/// a server's word for 128 MiB.
const ZSTD_WINDOW_LOG: u32 = 21;
const RECEIVE_BYTES: usize = 16 << 10;

/// What it reads from failed, or what it read is no frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// The frames of one connection, both ways.
pub struct Frames {
    packer: Packer,
    unpacker: Unpacker,
    /// What was received and is not unpacked is `received[start..end]`.
    received: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Frames {
    pub fn new(algorithm: Algorithm) -> io::Result<Frames> {
        let (packer, unpacker) = (Packer::new(algorithm)?, Unpacker::new(algorithm)?);
        Ok(Frames { packer, unpacker, received: vec![0; RECEIVE_BYTES].into(), start: 0, end: 0 })
    }

    /// Begins a command. A server counts frames anew for each, and the frames of both sides together.
    pub fn begin(&mut self) {
        (self.unpacker.expected, self.unpacker.in_turn) = (0, true);
    }

    /// What is written to it goes to `stream` in frames, one for each write unless that is too long.
    pub fn to<'a, W: Write>(&'a mut self, stream: &'a mut W) -> impl Write + 'a {
        Packing { packer: &mut self.packer, sequence: &mut self.unpacker.expected, stream }
    }

    /// Reads from `stream` until there is something to give; nothing is its end.
    pub fn read(&mut self, stream: &mut impl Read, output: &mut [u8]) -> Result<usize, FrameError> {
        loop {
            let (used, made) = self.unpacker.step(&self.received[self.start..self.end], output)?;
            self.start += used;
            if made > 0 {
                return Ok(made);
            }
            // Else a frame that is at its end too early must be found before anything more is waited for.
            if used == 0 {
                self.received.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
                match stream.read(&mut self.received[self.end..])? {
                    0 => return Ok(0),
                    count => self.end += count,
                }
            }
        }
    }

    /// Whether all frames since [`Frames::begin`] had the number that they must.
    pub fn in_turn(&self) -> bool {
        self.unpacker.in_turn
    }
}

struct Packing<'a, W> {
    packer: &'a mut Packer,
    sequence: &'a mut u8,
    stream: &'a mut W,
}

impl<W: Write> Write for Packing<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let plain = &bytes[..bytes.len().min(FULL)];
        self.stream.write_all(self.packer.frame(plain, *self.sequence)?)?;
        *self.sequence = self.sequence.wrapping_add(1);
        Ok(plain.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Makes frames.
struct Packer {
    encoder: Encoder,
    frame: Vec<u8>,
}

enum Encoder {
    Zlib(Compress),
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Packer {
    fn new(algorithm: Algorithm) -> io::Result<Packer> {
        let encoder = match algorithm {
            Algorithm::Zlib => Encoder::Zlib(Compress::new(flate2::Compression::default(), true)),
            Algorithm::Zstd => Encoder::Zstd(zstd::bulk::Compressor::new(ZSTD_LEVEL.into())?),
        };
        Ok(Packer { encoder, frame: Vec::new() })
    }

    /// The frame of at most [`FULL`] bytes. What does not become shorter goes as it is.
    fn frame(&mut self, plain: &[u8], sequence: u8) -> io::Result<&[u8]> {
        self.frame.clear();
        self.frame.extend_from_slice(&[0; HEADER]);
        let packed = plain.len() >= SHORTEST && self.pack(plain)? && self.frame.len() - HEADER < plain.len();
        if !packed {
            self.frame.truncate(HEADER);
            self.frame.extend_from_slice(plain);
        }
        let (length, plain_length) = (self.frame.len() - HEADER, if packed { plain.len() } else { 0 });
        self.frame[..3].copy_from_slice(&length.to_le_bytes()[..3]);
        self.frame[3] = sequence;
        self.frame[4..HEADER].copy_from_slice(&plain_length.to_le_bytes()[..3]);
        Ok(&self.frame)
    }

    /// Appends what `plain` becomes, and gives whether it had room.
    fn pack(&mut self, plain: &[u8]) -> io::Result<bool> {
        match &mut self.encoder {
            Encoder::Zlib(encoder) => {
                encoder.reset();
                self.frame.reserve(plain.len());
                Ok(encoder.compress_vec(plain, &mut self.frame, FlushCompress::Finish)? == Status::StreamEnd)
            }
            Encoder::Zstd(encoder) => {
                self.frame.resize(HEADER + zstd::zstd_safe::compress_bound(plain.len()), 0);
                let length = encoder.compress_to_buffer(plain, &mut self.frame[HEADER..])?;
                self.frame.truncate(HEADER + length);
                Ok(true)
            }
        }
    }
}

/// Takes frames apart, wherever their bytes are cut.
struct Unpacker {
    decoder: Unpacking,
    state: State,
    /// Number of the next frame.
    expected: u8,
    in_turn: bool,
}

enum Unpacking {
    Zlib(Decompress),
    Zstd(Decoder<'static>),
}

#[derive(Clone, Copy)]
enum State {
    Header,
    /// Bytes that go on as they are.
    Plain {
        left: usize,
    },
    /// Packed bytes that are still to come, and how many they must still become.
    Packed {
        left: usize,
        owed: usize,
    },
}

impl Unpacker {
    fn new(algorithm: Algorithm) -> io::Result<Unpacker> {
        let decoder = match algorithm {
            Algorithm::Zlib => Unpacking::Zlib(Decompress::new(true)),
            Algorithm::Zstd => {
                let mut decoder = Decoder::new()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG))?;
                Unpacking::Zstd(decoder)
            }
        };
        Ok(Unpacker { decoder, state: State::Header, expected: 0, in_turn: true })
    }

    /// Reads on, and gives how many bytes it used and how many it made. Neither means that it needs more.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize), WireError> {
        match self.state {
            State::Header => match input.first_chunk() {
                Some(header) => self.begin(header).map(|()| (HEADER, 0)),
                None => Ok((0, 0)),
            },
            State::Plain { left } => {
                let count = left.min(input.len()).min(output.len());
                output[..count].copy_from_slice(&input[..count]);
                self.state = if count == left { State::Header } else { State::Plain { left: left - count } };
                Ok((count, count))
            }
            State::Packed { left, owed } => self.unpack(&input[..left.min(input.len())], output, left, owed),
        }
    }

    fn begin(&mut self, header: &[u8; HEADER]) -> Result<(), WireError> {
        let length = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], 0]) as usize;
        let (left, owed) = (length(0), length(4));
        if left == 0 {
            return Err(WireError::Violation("an empty compressed packet"));
        }
        self.in_turn &= header[3] == self.expected;
        self.expected = header[3].wrapping_add(1);
        if owed == 0 {
            self.state = State::Plain { left };
            return Ok(());
        }
        self.state = State::Packed { left, owed };
        match &mut self.decoder {
            Unpacking::Zlib(decoder) => decoder.reset(true),
            Unpacking::Zstd(decoder) => decoder.reinit().map_err(|_| GARBAGE)?,
        }
        Ok(())
    }

    fn unpack(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        left: usize,
        owed: usize,
    ) -> Result<(usize, usize), WireError> {
        // With nothing owed any more there may still be an end to read, which makes no more bytes.
        let mut surplus = [0];
        let room = match owed {
            0 => &mut surplus[..],
            owed => {
                let room = owed.min(output.len());
                &mut output[..room]
            }
        };
        let had_room = !room.is_empty();
        let (used, made, ended) = self.decoder.step(input, room)?;
        let (left, owed) = (left - used, owed.checked_sub(made).ok_or(GARBAGE)?);
        let stuck = used == 0 && made == 0 && had_room && (left == 0 || !input.is_empty());
        self.state = match ended {
            true if left == 0 && owed == 0 => State::Header,
            false if !stuck => State::Packed { left, owed },
            _ => return Err(GARBAGE),
        };
        Ok((used, made))
    }
}

const GARBAGE: WireError = WireError::Violation("a compressed packet that does not unpack to what it says");

impl Unpacking {
    /// Gives what was used and made, and whether the end was read.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Result<(usize, usize, bool), WireError> {
        match self {
            Unpacking::Zlib(decoder) => {
                let (before_in, before_out) = (decoder.total_in(), decoder.total_out());
                let status = decoder.decompress(input, output, FlushDecompress::None).map_err(|_| GARBAGE)?;
                // Differences within one step are as small as its slices.
                let used = (decoder.total_in() - before_in) as usize;
                let made = (decoder.total_out() - before_out) as usize;
                Ok((used, made, status == Status::StreamEnd))
            }
            Unpacking::Zstd(decoder) => {
                let status = decoder.run_on_buffers(input, output).map_err(|_| GARBAGE)?;
                // Before a frame's first byte nothing remains either.
                let ended = status.remaining == 0 && (status.bytes_read > 0 || status.bytes_written > 0);
                Ok((status.bytes_read, status.bytes_written, ended))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const BOTH: [Algorithm; 2] = [Algorithm::Zlib, Algorithm::Zstd];

    /// Gives its bytes in parts of these lengths, over and over.
    struct Cut<'a> {
        bytes: &'a [u8],
        lengths: std::iter::Cycle<std::slice::Iter<'a, usize>>,
    }

    impl Read for Cut<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = *self.lengths.next().unwrap();
            let count = length.min(buffer.len()).min(self.bytes.len());
            let (front, rest) = self.bytes.split_at(count);
            buffer[..count].copy_from_slice(front);
            self.bytes = rest;
            Ok(count)
        }
    }

    /// What `bytes`, given in parts of `lengths`, unpack to through a window of `room` bytes, and whether in turn.
    fn unpacked(
        algorithm: Algorithm,
        bytes: &[u8],
        lengths: &[usize],
        room: usize,
    ) -> Result<(Vec<u8>, bool), FrameError> {
        let mut frames = Frames::new(algorithm).unwrap();
        let mut stream = Cut { bytes, lengths: lengths.iter().cycle() };
        let (mut all, mut window) = (Vec::new(), vec![0; room]);
        loop {
            match frames.read(&mut stream, &mut window)? {
                0 => return Ok((all, frames.in_turn())),
                count => all.extend_from_slice(&window[..count]),
            }
        }
    }

    fn packed(algorithm: Algorithm, packets: &[Vec<u8>]) -> Vec<u8> {
        let (mut frames, mut bytes) = (Frames::new(algorithm).unwrap(), Vec::new());
        for packet in packets {
            frames.to(&mut bytes).write_all(packet).unwrap();
        }
        bytes
    }

    /// Text that packs well, or bytes that do not.
    fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let repeated = (vec(any::<u8>(), 1..20), 1..200_usize).prop_map(|(part, times)| part.repeat(times));
        vec(prop_oneof![repeated, vec(any::<u8>(), 1..300)], 0..8)
    }

    proptest! {
        #[test]
        fn what_is_packed_and_cut_anywhere_is_what_it_was(
            packets in packets(), lengths in vec(1..60_usize, 1..10), room in 1..400_usize
        ) {
            for algorithm in BOTH {
                let bytes = packed(algorithm, &packets);
                prop_assert_eq!(unpacked(algorithm, &bytes, &lengths, room).unwrap(), (packets.concat(), true));
            }
        }

        #[test]
        fn garbage_is_refused_or_unpacked_and_never_more(
            header in any::<[u8; HEADER]>(), body in vec(any::<u8>(), 0..300), lengths in vec(1..60_usize, 1..10)
        ) {
            for algorithm in BOTH {
                let bytes = [&header[..], &body].concat();
                if let Ok((plain, _)) = unpacked(algorithm, &bytes, &lengths, 100) {
                    prop_assert!(plain.len() < 1 << 20);
                }
            }
        }

        #[test]
        fn a_flipped_bit_gives_no_more_bytes_than_there_were(packet in vec(0..4_u8, 60..400), at in any::<usize>()) {
            for algorithm in BOTH {
                let mut bytes = packed(algorithm, std::slice::from_ref(&packet));
                let bits = (bytes.len() - HEADER) * 8;
                bytes[HEADER + at % bits / 8] ^= 1 << (at % 8);
                if let Ok((plain, _)) = unpacked(algorithm, &bytes, &[17], 100) {
                    prop_assert!(plain.len() <= packet.len());
                }
            }
        }
    }

    #[test]
    fn a_packet_is_cut_at_every_byte() {
        let packet = b"SELECT c FROM sbtest1 WHERE id BETWEEN 1 AND 100; SELECT c FROM sbtest1 WHERE id = 3".to_vec();
        for algorithm in BOTH {
            let bytes = packed(algorithm, std::slice::from_ref(&packet));
            assert!(bytes.len() < packet.len(), "it is not packed at all");
            for cut in 1..bytes.len() {
                let plain = unpacked(algorithm, &bytes, &[cut, bytes.len()], 7).unwrap();
                assert_eq!(plain, (packet.clone(), true), "{algorithm:?} {cut}");
            }
        }
    }

    #[test]
    fn what_is_short_or_does_not_become_shorter_goes_as_it_is() {
        let random: Vec<u8> = (0..200_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for algorithm in BOTH {
            for packet in [vec![7; SHORTEST - 1], random.clone()] {
                let length = packet.len() as u8;
                let expected = [&[length, 0, 0, 0, 0, 0, 0][..], &packet].concat();
                assert_eq!(packed(algorithm, &[packet]), expected);
            }
        }
    }

    #[test]
    fn the_documentations_example_is_understood() {
        let bytes = b"\x22\0\0\0\x32\0\0\x78\x9c\xd3\x63\x60\x60\x60\x2e\x4e\xcd\x49\x4d\x2e\x51\x50\x32\x30\x34\x32\
                      \x36\x31\x35\x33\xb7\xb0\xc4\xcd\x52\x02\0\x0c\xd1\x0a\x6c";
        let plain = b"\x2e\0\0\0\x03select \"012345678901234567890123456789012345\"".to_vec();
        assert_eq!(unpacked(Algorithm::Zlib, bytes, &[100], 100).unwrap(), (plain, true));
    }

    #[test]
    fn a_packet_of_more_than_16_mib_takes_several_frames() {
        let packet = b"0123456789".repeat(1_700_000);
        for algorithm in BOTH {
            let bytes = packed(algorithm, std::slice::from_ref(&packet));
            let (plain, in_turn) = unpacked(algorithm, &bytes, &[1 << 20], 1 << 20).unwrap();
            assert!(in_turn && plain == packet);
        }
    }

    #[test]
    fn a_header_that_claims_too_much_too_little_or_nothing_is_refused() {
        for algorithm in BOTH {
            let frame = packed(algorithm, &[vec![7; 200]]);
            let with = |at: usize, byte: u8| {
                let mut frame = frame.clone();
                frame[at] = byte;
                // More of the same, so that no claim just waits for what it lacks.
                frame.extend_from_slice(&packed(algorithm, &[vec![7; 200]]));
                unpacked(algorithm, &frame, &[5], 1000)
            };
            assert_eq!(with(4, 200).unwrap().0, [7; 400]);
            for (at, byte) in [(4, 199), (4, 201), (6, 255), (0, frame[0] - 1), (0, frame[0] + 1), (0, 0)] {
                let error = with(at, byte).unwrap_err();
                assert!(matches!(error, FrameError::Wire(WireError::Violation(_))), "{algorithm:?} {at} {byte}");
            }
        }
    }

    #[test]
    fn a_frame_that_ends_too_early_is_refused_before_more_is_read() {
        for algorithm in BOTH {
            let mut frame = packed(algorithm, &[vec![7; 200]]);
            frame.pop();
            frame[0] -= 1;
            // Nothing follows, which would otherwise look like the server's end.
            for lengths in [1, frame.len()] {
                let error = unpacked(algorithm, &frame, &[lengths], 1000).unwrap_err();
                assert!(matches!(error, FrameError::Wire(WireError::Violation(_))), "{algorithm:?} {lengths}");
            }
        }
    }

    #[test]
    fn a_frame_of_another_number_is_out_of_turn() {
        for algorithm in BOTH {
            let mut bytes = packed(algorithm, &[vec![7; 200], vec![8; 20]]);
            let last = bytes.len() - HEADER - 20;
            assert_eq!(bytes[last + 3], 1);
            bytes[last + 3] = 2;
            assert!(!unpacked(algorithm, &bytes, &[5], 1000).unwrap().1);
        }
    }
}
