//! What would go wrong with a run, or make its figures other than they seem, before it begins.
//!
//! This machine is looked at here, the tables by `tables`, the server by its own
//! [`Control::check`](crate::target::Control::check). [`examine`] tells all, [`admit`] refuses what is fatal of it; both
//! judge by the same functions. Nothing is changed anywhere.
//!
//! Must not import: `metrics`, `report`, `cli`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::AtomicBool;

use super::{EngineError, descriptors, refuse, run, tables};
use crate::spec::{MySqlAddress, TargetAddress};
use crate::target::check::{Check, Demand, Level, counted};
use crate::target::{Database, Facts, Target};

/// A stack and one for signals, each with a guard.
const MAPPINGS_PER_THREAD: u64 = 4;
/// What the program itself needs: libraries, files, heaps.
const OWN_MAPPINGS: u64 = 1000;

/// Asks the target and looks at this machine. The checks come in the order in which a run would meet them.
pub fn examine<T: Target + Database>(
    target: &T,
    address: &TargetAddress,
    demand: &Demand<'_>,
    interrupted: &AtomicBool,
) -> Result<(Facts, Vec<Check>), EngineError> {
    let mut control = target.prompt_control(interrupted)?;
    let facts = control.facts()?;
    let mut checks = vec![tables::check(control.as_mut(), target.dialect(), demand.plan)?];
    checks.extend(control.check(&facts, demand)?);
    checks.extend(limits(target, address, demand));
    // An embedded database has no other side.
    let local = matches!(address, TargetAddress::MySql(address) if is_here(address));
    checks.push(cores(local, demand));
    Ok((facts, checks))
}

/// This machine's limits of what a run needs of it.
fn limits<T: Target + Database>(
    target: &T,
    address: &TargetAddress,
    demand: &Demand<'_>,
) -> impl Iterator<Item = Check> {
    let server = matches!(address, TargetAddress::MySql(_)).then_some(target as &dyn Database);
    let files = descriptors::check(run::open_files(target, server, demand.threads));
    std::iter::once(files).chain(threads(demand.threads)).chain(ports(address, demand))
}

/// Refuses a run whose turn comes later: what [`admit`] refuses, and the limits of this machine, which it would meet only
/// then.
pub fn admit_early<T: Target + Database>(
    target: &T,
    address: &TargetAddress,
    demand: &Demand<'_>,
    interrupted: &AtomicBool,
) -> Result<Facts, EngineError> {
    refuse(limits(target, address, demand))?;
    admit(target, address, demand, interrupted)
}

/// Refuses a run that could only fail or mean nothing. Of what [`examine`] calls fatal this leaves to the run what it meets
/// by itself when it connects: threads, open files, and the server's limits of connections.
pub fn admit(
    database: &dyn Database,
    address: &TargetAddress,
    demand: &Demand<'_>,
    interrupted: &AtomicBool,
) -> Result<Facts, EngineError> {
    refuse(ports(address, demand))?;
    let mut control = database.prompt_control(interrupted)?;
    let facts = control.facts()?;
    refuse(control.refusals(&facts, demand.plan))?;
    refuse([tables::check(control.as_mut(), database.dialect(), demand.plan)?])?;
    Ok(facts)
}

/// Each thread takes pieces of this machine's memory map; said only where they do not suffice. A thread that gets only some
/// of them starts and then panics in the standard library, so it must not come to that.
pub(super) fn threads(count: u32) -> Option<Check> {
    let most = std::fs::read_to_string("/proc/sys/vm/max_map_count").ok()?;
    too_many_threads(count, most.trim().parse().ok()?)
}

fn too_many_threads(count: u32, most: u64) -> Option<Check> {
    let needed = MAPPINGS_PER_THREAD * u64::from(count) + OWN_MAPPINGS;
    (needed > most).then(|| {
        Check::new(
            Level::Fatal,
            "threads",
            format!("{count} threads need {needed} memory mappings and vm.max_map_count is {most}"),
            format!("use fewer --threads, or raise it with `sysctl -w vm.max_map_count={needed}`"),
        )
    })
}

/// Each connection to one address and port of a server takes a port of this machine; said only where they do not suffice.
fn ports(address: &TargetAddress, demand: &Demand<'_>) -> Option<Check> {
    match address {
        TargetAddress::MySql(address) if address.socket.is_none() => {
            let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok()?;
            too_few_ports(&range, demand.connections())
        }
        _ => None,
    }
}

/// `range` holds the first and the last port that Linux gives to clients (ip(7)).
fn too_few_ports(range: &str, needed: u64) -> Option<Check> {
    let mut numbers = range.split_whitespace().map_while(|number| number.parse::<u64>().ok());
    let (first, last) = (numbers.next()?, numbers.next()?);
    let there = (last + 1).saturating_sub(first);
    (needed > there).then(|| {
        Check::new(
            Level::Fatal,
            "ports",
            format!("{needed} connections need a port each here; this machine has {there}, {first} to {last}"),
            "widen net.ipv4.ip_local_port_range, or use fewer --threads",
        )
    })
}

fn cores(local: bool, demand: &Demand<'_>) -> Check {
    const CODE: &str = "cores";
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let (cores, threads) = (counted(cores as u64, "core"), counted(u64::from(demand.threads), "thread"));
    match local {
        false => Check::ok(CODE, format!("this machine has {cores} for {threads}")),
        true => Check::new(
            Level::Note,
            CODE,
            format!("this machine has {cores} for {threads} and for the server, or a proxy to it"),
            "the client takes CPU time from the server; a machine of its own gives it back",
        ),
    }
}

/// Whether what answers at an address, a server or a proxy to it, is on this machine.
fn is_here(address: &MySqlAddress) -> bool {
    if address.socket.is_some() {
        return true;
    }
    let resolved = (address.host.as_str(), address.port).to_socket_addrs().ok();
    resolved.and_then(|mut addresses| addresses.next()).is_some_and(|there| {
        // A UDP socket sends nothing to connect; the kernel chooses the way, which has two equal ends only if it is local.
        let any: IpAddr = if there.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let here = UdpSocket::bind((any, 0)).and_then(|socket| {
            socket.connect(there)?;
            socket.local_addr()
        });
        there.ip().is_loopback() || here.is_ok_and(|here| here.ip() == there.ip())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_held_against_the_ports_of_this_machine() {
        assert_eq!(too_few_ports("32768\t60999\n", 28_232), None);
        let check = too_few_ports("32768\t60999\n", 28_233).unwrap();
        assert_eq!(check.level, Level::Fatal);
        assert!(check.message.contains("28233") && check.message.contains("has 28232, 32768 to 60999"), "{check}");
        assert_eq!(too_few_ports("", 1), None);
    }

    #[test]
    fn threads_are_held_against_the_mappings_of_this_machine() {
        assert_eq!(too_many_threads(16_132, 65_530), None);
        let check = too_many_threads(16_133, 65_530).unwrap();
        assert_eq!(check.level, Level::Fatal);
        assert!(check.advice.contains("vm.max_map_count=65532"), "{check}");
    }

    #[test]
    fn a_server_is_here_by_its_socket_or_its_address() {
        let at = |host: &str| MySqlAddress { host: host.into(), ..MySqlAddress::default() };
        assert!(is_here(&at("127.0.0.1")) && is_here(&at("127.0.0.2")) && is_here(&at("localhost")));
        assert!(is_here(&MySqlAddress { socket: Some("/run/mysqld.sock".into()), ..at("192.0.2.1") }));
        // An address for documentation, which nobody has.
        assert!(!is_here(&at("192.0.2.1")));
    }
}
