//! What would go wrong with a run, or make its figures other than they seem, before it begins.
//!
//! Tables and this machine are looked at here, the server by its own [`Control::check`]. Nothing is changed anywhere.
//!
//! Must not import: `metrics`, `report`, `cli`.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::AtomicBool;

use super::load::{TABLES_PER_QUERY, Table, query, tables, unfit_table};
use super::{EngineError, descriptors, run};
use crate::spec::{MySqlAddress, TargetAddress};
use crate::target::check::{Check, Demand, Level};
use crate::target::{Control, Database, Dialect, Facts, Target};
use crate::workload::plan::{Key, Plan};

/// Asks the target and looks at this machine. The checks come in the order in which a run would meet them.
pub fn examine<T: Target + Database>(
    target: &T,
    address: &TargetAddress,
    demand: &Demand<'_>,
    interrupted: &AtomicBool,
) -> Result<(Facts, Vec<Check>), EngineError> {
    let mut control = target.control(interrupted)?;
    let facts = control.facts()?;
    let dialect = target.dialect();
    let mut checks = Vec::new();
    match unfit_table(control.as_mut(), dialect, demand.plan)? {
        Some(check) => checks.push(check),
        None => {
            checks.push(fit_tables(demand.plan));
            checks.extend(missing_index(control.as_mut(), dialect, demand.plan)?);
        }
    }
    checks.extend(control.check(&facts, demand)?);
    let (server, local) = match address {
        TargetAddress::MySql(address) => (Some(target as &dyn Database), is_here(address)),
        // An embedded database has no other side.
        _ => (None, false),
    };
    checks.push(descriptors::check(run::open_files(target, server, demand.threads)));
    checks.extend(ports(address, demand));
    checks.push(cores(local, demand));
    Ok((facts, checks))
}

fn fit_tables(plan: &Plan) -> Check {
    let sets = plan.tables.iter().map(|set| match plan.resizes_tables {
        true => format!("{} {}", set.count, set.name),
        false => format!("{} {} of {} rows", set.count, set.name, set.rows),
    });
    Check::ok("tables", format!("all tables are there: {}", sets.collect::<Vec<_>>().join(", ")))
}

/// A table without one of the indexes that the plan gives it. An index counts by its first columns, whatever its name.
fn missing_index(control: &mut dyn Control, dialect: Dialect, plan: &Plan) -> Result<Option<Check>, EngineError> {
    let mut indexed: HashMap<String, Vec<String>> = HashMap::new();
    let tables = tables(plan);
    for chunk in tables.chunks(TABLES_PER_QUERY) {
        let names: Vec<String> = chunk.iter().map(Table::name).collect();
        for row in query(control, &dialect.indexes(&names), || "listing indexes".into())? {
            if let [Some(table), Some(columns)] = row.as_slice() {
                indexed.entry(table.clone()).or_default().push(format!("{columns},"));
            }
        }
    }
    let lacking = tables.iter().filter_map(|table| {
        let there = indexed.remove(&table.name()).unwrap_or_default();
        let columns = wanted_indexes(table, dialect);
        let missing = columns.into_iter().find(|columns| !there.iter().any(|index| index.starts_with(columns)))?;
        Some((table.name(), missing.trim_end_matches(',').to_string()))
    });
    let lacking: Vec<(String, String)> = lacking.collect();
    Ok(lacking.first().map(|(table, columns)| {
        Check::new(
            Level::Warning,
            "index-missing",
            format!("{table} has no index on {columns} (tables that lack one: {} of {})", lacking.len(), tables.len()),
            format!("make it with CREATE INDEX, or give the options that {table} was prepared with"),
        )
    }))
}

/// The columns of a table's indexes, each followed by a comma.
fn wanted_indexes(table: &Table<'_>, dialect: Dialect) -> Vec<String> {
    let list = |columns: &[String]| columns.iter().map(|column| format!("{column},")).collect::<String>();
    let key = match &table.set.key {
        // A row id is found without an index.
        _ if dialect.row_id(table.set).is_some() => None,
        Key::Primary(columns) | Key::Plain { columns, .. } => Some(list(columns)),
    };
    key.into_iter().chain(table.set.indexes.iter().map(|index| list(&index.columns))).collect()
}

/// Each connection to one address and port of a server takes a port of this machine; said only where they do not suffice.
pub fn ports(address: &TargetAddress, demand: &Demand<'_>) -> Option<Check> {
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
            "figures from a client machine of its own are higher",
        ),
    }
}

fn counted(count: u64, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
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
    fn a_server_is_here_by_its_socket_or_its_address() {
        let at = |host: &str| MySqlAddress { host: host.into(), ..MySqlAddress::default() };
        assert!(is_here(&at("127.0.0.1")) && is_here(&at("127.0.0.2")) && is_here(&at("localhost")));
        assert!(is_here(&MySqlAddress { socket: Some("/run/mysqld.sock".into()), ..at("192.0.2.1") }));
        // An address for documentation, which nobody has.
        assert!(!is_here(&at("192.0.2.1")));
    }
}
