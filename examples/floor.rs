//! The floor of a point select's cost: `floor PORT CONNECTIONS SECONDS` sends to a null server the bytes of a prepared
//! point select, and receives those of its row, in a bare loop, one blocking thread a connection.
//!
//! It says when its connections are there, and at the end how many it sent. What a client costs beyond it is the
//! client's own: drawing, timing, counting, decoding.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// PROTOCOL_41, SECURE_CONNECTION and DEPRECATE_EOF, which leaves EOF packets out of results.
const FLAGS: u32 = 1 << 9 | 1 << 15 | 1 << 24;
const PREPARE: &[u8] = b"\x21\0\0\0\x16SELECT c FROM sbtest1 WHERE id=?";
/// Executes statement 1 once without a cursor. No argument is null, types follow: a BIGINT, 12345.
const EXECUTE: &[u8] = b"\x16\0\0\0\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x08\0\x39\x30\0\0\0\0\0\0";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Option<Vec<u16>> = arguments.iter().map(|argument| argument.parse().ok()).collect();
    let Some([port, connections, seconds]) = numbers.as_deref() else {
        eprintln!("usage: floor PORT CONNECTIONS SECONDS");
        return ExitCode::from(2);
    };
    match queries(*port, *connections, Duration::from_secs((*seconds).into())) {
        Ok(queries) => {
            println!("{queries}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("floor: {error}; is it examples/null-server that listens on port {port}?");
            ExitCode::FAILURE
        }
    }
}

fn queries(port: u16, connections: u16, time: Duration) -> io::Result<u64> {
    let connected: Vec<(TcpStream, usize)> = (0..connections).map(|_| connect(port)).collect::<io::Result<_>>()?;
    println!("Running {connections} connections");
    let stop = &AtomicBool::new(false);
    thread::scope(|scope| {
        let start = |(stream, length)| scope.spawn(move || repeat(stream, length, stop));
        let loops: Vec<_> = connected.into_iter().map(start).collect();
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        loops.into_iter().map(|each| each.join().expect("the loop does not panic")).sum()
    })
}

/// A connection with the statement prepared, and the length of the answer to its execution.
fn connect(port: u16) -> io::Result<(TcpStream, usize)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_nodelay(true)?;
    packets(&mut stream, 1)?;
    stream.write_all(&login())?;
    packets(&mut stream, 1)?;
    stream.write_all(PREPARE)?;
    // The statement, its parameter and its column.
    packets(&mut stream, 3)?;
    stream.write_all(EXECUTE)?;
    // The number of columns, the column, the row and the end.
    let length = packets(&mut stream, 4)?;
    Ok((stream, length))
}

/// The flags, room for what no null server reads, the user `u` and an empty password.
fn login() -> Vec<u8> {
    [&[35, 0, 0, 1][..], &FLAGS.to_le_bytes(), &[0; 28], b"u\0\0"].concat()
}

/// Receives so many packets, and gives their length together.
fn packets(stream: &mut TcpStream, count: usize) -> io::Result<usize> {
    let mut total = 0;
    for _ in 0..count {
        let mut header = [0; 4];
        stream.read_exact(&mut header)?;
        let length = u32::from_le_bytes([header[0], header[1], header[2], 0]) as usize;
        stream.read_exact(&mut vec![0; length])?;
        total += header.len() + length;
    }
    Ok(total)
}

fn repeat(mut stream: TcpStream, length: usize, stop: &AtomicBool) -> io::Result<u64> {
    let mut answer = [0; 16 << 10];
    let mut queries = 0;
    while !stop.load(Ordering::Relaxed) {
        stream.write_all(EXECUTE)?;
        let mut received = 0;
        while received < length {
            match stream.read(&mut answer)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => received += count,
            }
        }
        queries += 1;
    }
    Ok(queries)
}
