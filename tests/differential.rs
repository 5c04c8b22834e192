//! Our client and sqlx's read the same from real servers: every column type, each protocol, and rows of any size.
//!
//! sqlx is the witness here and nowhere on a measured path. Two things it cannot read, and for both the server itself is
//! the witness instead: MySQL's VECTOR, and text rows that begin with a value of 16 MiB, which it takes for their end.

mod support;

use oltpbench::spec::TargetAddress;
use oltpbench::target::Fault;
use oltpbench::target::mysql::connection::{Connection, Endpoint};
use oltpbench::target::mysql::response::{Answer, Rows, Skip};
use oltpbench::target::mysql::wire::{WireError, push_lenenc};
use oltpbench::workload::plan::{Arguments, Value};
use sqlx::mysql::{MySql, MySqlConnectOptions, MySqlConnection, MySqlDatabaseError, MySqlQueryResult, MySqlRow};
use sqlx::{AssertSqlSafe, Column, ConnectOptions, Decode, Row, TypeInfo};
use tokio::runtime::Runtime;

use support::Server;

/// Room for values that need several packets.
const PACKETS: &str = "--max-allowed-packet=128M";
const MORE_THAN_A_PACKET: usize = 17 << 20;
/// The length of a packet that is followed by more of the same payload.
const FULL: usize = 0xff_ffff;

type Values = Vec<Option<Vec<u8>>>;

/// Keeps rows as they are on the wire.
#[derive(Default)]
struct Payloads {
    payload: Vec<u8>,
    rows: Vec<Vec<u8>>,
}

impl Rows for Payloads {
    fn part(&mut self, bytes: &[u8]) {
        self.payload.extend_from_slice(bytes);
    }

    fn end(&mut self) -> Result<(), WireError> {
        self.rows.push(std::mem::take(&mut self.payload));
        Ok(())
    }
}

/// Both clients, logged in to the same server.
struct Both {
    server: Server,
    ours: Connection<'static>,
    theirs: MySqlConnection,
    runtime: Runtime,
}

impl Both {
    fn on(server: Server) -> Both {
        let TargetAddress::MySql(address) = TargetAddress::parse(&server.url()).unwrap() else { unreachable!() };
        // Ours is first: MySQL then remembers the password, and sqlx needs no RSA to show that it knows it.
        let mut ours = Connection::open(&Endpoint::new(*address).unwrap()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = MySqlConnectOptions::new()
            .host("127.0.0.1")
            .port(server.port())
            .username("sysbench")
            .password("sysbench")
            .database("sbtest")
            .ssl_mode(sqlx::mysql::MySqlSslMode::Disabled)
            .charset("utf8mb4")
            .set_names(false)
            .timezone(None)
            .pipes_as_concat(false)
            .no_engine_substitution(false);
        let theirs = runtime.block_on(options.disable_statement_logging().connect()).unwrap();
        // Bounds and zero dates are stored as they are.
        ours.query("SET sql_mode = 'ALLOW_INVALID_DATES'").unwrap();
        Both { server, ours, theirs, runtime }
    }

    /// Both kinds of server, as far as this machine has them.
    fn all() -> impl Iterator<Item = Both> {
        let servers = [Server::mariadb as fn(&[&str]) -> Option<Server>, Server::mysql];
        servers.into_iter().filter_map(|start| start(&[PACKETS])).map(Both::on)
    }

    fn is_mariadb(&self) -> bool {
        self.server.version().contains("MariaDB")
    }

    /// Runs statements whose outcome is not looked at.
    fn set_up(&mut self, sql: &str) {
        self.ours.query(sql).unwrap_or_else(|fault| panic!("{sql:.300}: {fault:?} on {}", self.server.version()));
    }

    fn theirs_text(&mut self, sql: &str) -> Result<Vec<MySqlRow>, sqlx::Error> {
        self.runtime.block_on(sqlx::raw_sql(AssertSqlSafe(sql)).fetch_all(&mut self.theirs))
    }

    fn theirs_binary(&mut self, sql: &str) -> Result<Vec<MySqlRow>, sqlx::Error> {
        self.runtime.block_on(sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut self.theirs))
    }

    fn ours_binary(&mut self, sql: &str, arguments: Arguments<'_>) -> Result<(Answer, Vec<Vec<u8>>), Fault> {
        let statement = self.ours.prepare(sql)?.statement;
        let mut payloads = Payloads::default();
        let answer = self.ours.execute_into(statement, arguments, &mut payloads)?;
        // What a measurement does with the same rows: they are counted and dropped.
        let dropped = self.ours.execute_into(statement, arguments, &mut Skip)?;
        assert_eq!(dropped.rows, answer.rows, "{sql:.300}");
        Ok((answer, payloads.rows))
    }

    /// Holds the rows of both clients in both protocols against each other, and gives their number.
    fn compare(&mut self, what: &str, sql: &str) -> usize {
        let at = |protocol: &str, both: &Both| format!("{what}, {protocol} protocol, {}", both.server.version());
        let place = at("text", self);
        let theirs = self.theirs_text(sql).unwrap_or_else(|error| panic!("{place}: {error}"));
        let ours = self.ours.rows(sql).unwrap_or_else(|fault| panic!("{place}: {fault:?}"));
        let counted = self.ours.query(sql).unwrap_or_else(|fault| panic!("{place}: {fault:?}")).rows;
        assert_eq!(counted, theirs.len() as u64, "{place}: rows that were counted");
        let text: Vec<Values> = theirs.iter().map(values).collect();
        assert_same(&place, &ours, &text, |row| row.iter().flatten().flatten().copied().collect());

        let place = at("binary", self);
        let theirs = self.theirs_binary(sql).unwrap_or_else(|error| panic!("{place}: {error}"));
        let ours = self.ours_binary(sql, none()).unwrap_or_else(|fault| panic!("{place}: {fault:?}"));
        assert_eq!(ours.0.rows, theirs.len() as u64, "{place}: rows that were counted");
        let payloads: Vec<Vec<u8>> = theirs.iter().map(binary_payload).collect();
        assert_same(&place, &ours.1, &payloads, Vec::clone);
        theirs.len()
    }
}

fn none() -> Arguments<'static> {
    Arguments::of(&[], "")
}

/// The values of a row as sqlx keeps them, which in the binary protocol is without the lengths of texts.
fn values(row: &MySqlRow) -> Values {
    let value = |at| row.try_get_raw(at).ok().and_then(|raw| <&[u8] as Decode<MySql>>::decode(raw).ok());
    (0..row.len()).map(|at| value(at).map(<[u8]>::to_vec)).collect()
}

/// The payload that must have led to sqlx's row of the binary protocol
/// (dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html).
fn binary_payload(row: &MySqlRow) -> Vec<u8> {
    let mut payload = vec![0; 1 + (row.len() + 2).div_ceil(8)];
    for (at, value) in values(row).into_iter().enumerate() {
        let Some(value) = value else {
            payload[1 + (at + 2) / 8] |= 1 << ((at + 2) % 8);
            continue;
        };
        let of_fixed_length =
            ["BOOLEAN", "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "YEAR"];
        // sqlx leaves the length of these in the value.
        let with_own_length = ["DATE", "TIME", "DATETIME", "TIMESTAMP"];
        let name = row.column(at).type_info().name().split(' ').next().unwrap();
        if !of_fixed_length.contains(&name) && !with_own_length.contains(&name) {
            push_lenenc(&mut payload, value.len());
        }
        payload.extend_from_slice(&value);
    }
    payload
}

/// Compares rows; those that differ may be too long to be shown.
#[track_caller]
fn assert_same<R: PartialEq>(place: &str, ours: &[R], theirs: &[R], bytes: impl Fn(&R) -> Vec<u8>) {
    for (number, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        if ours != theirs {
            let (ours, theirs) = (bytes(ours), bytes(theirs));
            let at = ours.iter().zip(&theirs).position(|(ours, theirs)| ours != theirs);
            let at = at.unwrap_or(ours.len().min(theirs.len()));
            let part = |bytes: &[u8]| format!("{:02x?}", &bytes[at..bytes.len().min(at + 24)]);
            panic!(
                "{place}: row {number} differs from byte {at} on:\nours   ({} bytes) {}\ntheirs ({} bytes) {}",
                ours.len(),
                part(&ours),
                theirs.len(),
                part(&theirs)
            );
        }
    }
    assert_eq!(ours.len(), theirs.len(), "{place}: number of rows");
}

/// An expression that gives a text of this length, and that text. 251 is a prime, so that no part of a text that is left
/// out or repeated leaves it the same.
fn long_text(length: usize) -> (String, Vec<u8>) {
    let pattern: String = (0..251u8).map(|at| char::from(b'!' + (at.wrapping_mul(37) % 93))).collect();
    let pattern = pattern.replace(['\'', '\\', '"'], "_");
    let text = pattern.bytes().cycle().take(length).collect();
    (format!("LEFT(REPEAT('{pattern}', {}), {length})", length.div_ceil(pattern.len())), text)
}

/// Column types of both servers with values at their bounds; NULL is added to each.
const TYPES: &[(&str, &[&str])] = &[
    ("BOOLEAN", &["FALSE", "TRUE"]),
    ("TINYINT", &["-128", "-1", "0", "127"]),
    ("TINYINT UNSIGNED", &["0", "251", "255"]),
    ("SMALLINT", &["-32768", "0", "32767"]),
    ("SMALLINT UNSIGNED", &["0", "65535"]),
    ("MEDIUMINT", &["-8388608", "0", "8388607"]),
    ("MEDIUMINT UNSIGNED", &["0", "16777215"]),
    ("INT", &["-2147483648", "0", "2147483647"]),
    ("INT UNSIGNED", &["0", "4294967295"]),
    ("INT ZEROFILL", &["0", "42"]),
    ("BIGINT", &["-9223372036854775808", "0", "9223372036854775807"]),
    ("BIGINT UNSIGNED", &["0", "18446744073709551615"]),
    (
        "DECIMAL(65, 30)",
        &[
            "-99999999999999999999999999999999999.999999999999999999999999999999",
            "-0.000000000000000000000000000001",
            "0",
            "99999999999999999999999999999999999.999999999999999999999999999999",
        ],
    ),
    ("DECIMAL(1, 0) UNSIGNED", &["0", "9"]),
    ("FLOAT", &["-3.402823466e38", "-1.175494351e-38", "0", "0.1", "16777217", "3.402823466e38"]),
    ("DOUBLE", &["-1.7976931348623157e308", "-2.2250738585072014e-308", "0", "0.1", "1.7976931348623157e308"]),
    ("BIT(1)", &["0", "1"]),
    ("BIT(64)", &["0", "1", "0xfbfcfdfe", "18446744073709551615"]),
    ("DATE", &["'0000-00-00'", "'1000-01-01'", "'2023-02-30'", "'2024-02-29'", "'9999-12-31'"]),
    ("TIME", &["'-838:59:59'", "'00:00:00'", "'-00:00:01'", "'24:00:00'", "'838:59:59'"]),
    (
        "TIME(6)",
        &[
            "'-838:59:59'",
            "'-838:59:58.999999'",
            "'-00:00:00.000001'",
            "'00:00:00'",
            "'00:00:00.000001'",
            "'12:34:56'",
            "'838:59:58.999999'",
            "'838:59:59'",
        ],
    ),
    ("DATETIME", &["'0000-00-00 00:00:00'", "'1000-01-01 00:00:00'", "'9999-12-31 23:59:59'"]),
    (
        "DATETIME(6)",
        &[
            "'0000-00-00 00:00:00'",
            "'1000-01-01 00:00:00.000001'",
            "'2024-02-29 00:00:00'",
            "'2024-02-29 12:00:01'",
            "'9999-12-31 23:59:59.999999'",
        ],
    ),
    ("TIMESTAMP", &["'0000-00-00 00:00:00'", "'1970-01-02 00:00:01'", "'2038-01-18 03:14:07'"]),
    ("TIMESTAMP(6)", &["'1970-01-02 00:00:01.000001'", "'2038-01-18 03:14:07.999999'"]),
    ("YEAR", &["0", "1901", "2155"]),
    ("CHAR(0)", &["''"]),
    ("CHAR(255)", &["''", "'a'", "REPEAT('a', 250)", "REPEAT('ä', 255)", "REPEAT('\u{1f980}', 255)"]),
    ("CHAR(20) CHARACTER SET latin1", &["''", "'äöü'"]),
    ("VARCHAR(8000)", &["''", "REPEAT('a', 250)", "REPEAT('a', 251)", "REPEAT('a', 252)", "REPEAT('\u{1f980}', 8000)"]),
    ("BINARY(0)", &["''"]),
    ("BINARY(255)", &["''", "UNHEX('00ff')", "REPEAT(UNHEX('fb'), 255)"]),
    ("VARBINARY(20000)", &["''", "UNHEX('00')", "UNHEX('fbfcfdfeff')", "REPEAT(UNHEX('fe'), 20000)"]),
    ("TINYTEXT", &["''", "REPEAT('a', 250)", "REPEAT('a', 251)", "REPEAT('a', 255)"]),
    ("TEXT", &["''", "'ä'", "REPEAT('a', 65535)"]),
    ("MEDIUMTEXT", &["''", "REPEAT('a', 65536)"]),
    ("LONGTEXT", &["''", "REPEAT('a', 65537)"]),
    ("TINYBLOB", &["''", "REPEAT(UNHEX('fb'), 255)"]),
    ("BLOB", &["''", "REPEAT(UNHEX('fc'), 65535)"]),
    ("MEDIUMBLOB", &["''", "REPEAT(UNHEX('fe'), 65536)"]),
    ("LONGBLOB", &["''", "REPEAT(UNHEX('ff'), 65537)"]),
    ("ENUM('', 'a', 'ä')", &["''", "'a'", "'ä'", "'none of them'"]),
    ("SET('a', 'b', 'ä')", &["''", "'a'", "'a,b,ä'"]),
    ("JSON", &["'null'", "'{}'", "'\"\"'", "'[1, -1.5, \"ä\", {\"a\": [true]}]'"]),
    (
        "GEOMETRY",
        &[
            "ST_GeomFromText('POINT(-1.5 2)')",
            "ST_GeomFromText('GEOMETRYCOLLECTION(POINT(1 2), LINESTRING(0 0, 1 1))')",
        ],
    ),
    ("POINT", &["ST_GeomFromText('POINT(0 0)')"]),
    ("LINESTRING", &["ST_GeomFromText('LINESTRING(0 0, 1 1, 2 0)')"]),
    ("POLYGON", &["ST_GeomFromText('POLYGON((0 0, 1 0, 1 1, 0 0))')"]),
    ("MULTIPOINT", &["ST_GeomFromText('MULTIPOINT(0 0, 1 1)')"]),
    ("MULTILINESTRING", &["ST_GeomFromText('MULTILINESTRING((0 0, 1 1), (2 2, 3 3))')"]),
    ("MULTIPOLYGON", &["ST_GeomFromText('MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)))')"]),
    ("GEOMETRYCOLLECTION", &["ST_GeomFromText('GEOMETRYCOLLECTION EMPTY')"]),
];

/// What MariaDB 10.11 has and MySQL has not.
const MARIADB_TYPES: &[(&str, &[&str])] = &[
    ("UUID", &["'00000000-0000-0000-0000-000000000000'", "'ffffffff-ffff-ffff-ffff-ffffffffffff'"]),
    ("INET4", &["'0.0.0.0'", "'255.255.255.255'"]),
    ("INET6", &["'::'", "'::ffff:192.0.2.1'", "'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'"]),
];

impl Both {
    fn types(&self) -> Vec<(&'static str, &'static [&'static str])> {
        let more = if self.is_mariadb() { MARIADB_TYPES } else { &[] };
        [TYPES, more].concat()
    }
}

#[test]
fn every_column_type_reads_the_same_at_its_bounds_and_as_null() {
    for mut both in Both::all() {
        for (name, values) in both.types() {
            let rows: Vec<String> = values.iter().chain(&["NULL"]).map(|value| format!("({value})")).collect();
            both.set_up(&format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v {name} NULL); \
                 INSERT INTO t (v) VALUES {}",
                rows.join(", ")
            ));
            for columns in ["v", "id, v, id", "v, v"] {
                let count = both.compare(name, &format!("SELECT {columns} FROM t ORDER BY id"));
                assert_eq!(count, values.len() + 1, "{name}");
            }
            both.compare(&format!("no rows of {name}"), "SELECT v FROM t WHERE id < 0");
        }
    }
}

#[test]
fn rows_of_all_types_at_once_read_the_same_whichever_values_are_null() {
    for mut both in Both::all() {
        let types = both.types();
        let columns: Vec<String> =
            types.iter().enumerate().map(|(at, (name, _))| format!("c{at} {name} NULL")).collect();
        both.set_up(&format!("CREATE TABLE wide (id INT PRIMARY KEY AUTO_INCREMENT, {})", columns.join(", ")));
        let names: Vec<String> = (0..types.len()).map(|at| format!("c{at}")).collect();
        // Each value is NULL in some rows and not in others, and each bit of the bitmap is set alone once.
        let some: [fn(usize) -> bool; 4] = [|_| false, |_| true, |at| at % 2 == 0, |at| at % 2 == 1];
        let mut patterns: Vec<Vec<bool>> = some.iter().map(|null| (0..types.len()).map(null).collect()).collect();
        patterns.extend((0..types.len()).map(|alone| (0..types.len()).map(|at| at == alone).collect()));
        for (row, nulls) in patterns.iter().enumerate() {
            let value = |((_, values), null): (&(&str, &[&'static str]), &bool)| match null {
                true => "NULL",
                // The longest come last, and a row has room for few of those.
                false => values[row % values.len().min(2)],
            };
            let values: Vec<&str> = types.iter().zip(nulls).map(value).collect();
            both.set_up(&format!("INSERT INTO wide ({}) VALUES ({})", names.join(", "), values.join(", ")));
        }
        assert_eq!(both.compare("all types in a row", "SELECT * FROM wide ORDER BY id"), patterns.len());
        // The first value of a row tells it from other packets.
        for name in names {
            both.compare(&format!("a row that begins with {name}"), &format!("SELECT {name}, wide.* FROM wide"));
        }
    }
}

#[test]
fn values_of_seventeen_mebibytes_read_the_same_in_each_type_that_holds_them() {
    for mut both in Both::all() {
        let (long, _) = long_text(MORE_THAN_A_PACKET);
        let json = format!("CONCAT('[\"', REPLACE({long}, '\"', '_'), '\"]')");
        // As well-known binary, since MySQL takes minutes for a text of this size.
        let points = MORE_THAN_A_PACKET / 16;
        let count: String = (points as u32).to_le_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let point = "000000000000f03f0000000000000040";
        let geometry = format!("ST_GeomFromWKB(CONCAT(x'0102000000{count}', REPEAT(x'{point}', {points})))");
        let types = [("LONGTEXT", &long), ("LONGBLOB", &long), ("JSON", &json), ("GEOMETRY", &geometry)];
        for (name, value) in types {
            // MyISAM's rows need no redo log, whose size limits InnoDB's.
            both.set_up(&format!(
                "DROP TABLE IF EXISTS t; CREATE TABLE t (id INT, v {name} NULL) ENGINE = MyISAM; \
                 INSERT INTO t VALUES (1, {value}), (2, NULL), (3, {value})"
            ));
            let length = both.ours.rows("SELECT MIN(LENGTH(v)) FROM t").unwrap();
            let length: usize = String::from_utf8_lossy(length[0][0].as_ref().unwrap()).parse().unwrap();
            assert!(length >= MORE_THAN_A_PACKET, "{name} is of {length} bytes only");
            // They come in the order in which they were inserted; MySQL has no memory to sort such JSON.
            assert_eq!(both.compare(&format!("17 MiB of {name}"), "SELECT id, v, id FROM t"), 3);
        }
    }
}

#[test]
fn rows_whose_payload_just_fills_packets_read_the_same() {
    // Of a row in front of the long value: a number and its length, the value's own length, in the binary protocol the
    // mark and the bitmap.
    let (text, binary) = (2 + 4, 1 + 1 + 1 + 4);
    for mut both in Both::all() {
        for overhead in [text, binary] {
            for payload in [FULL - 1, FULL, FULL + 1] {
                let (long, _) = long_text(payload - overhead);
                // In the binary protocol a TINYINT is one byte, which a literal is not.
                both.set_up(&format!(
                    "DROP TABLE IF EXISTS t; CREATE TABLE t (a TINYINT, v LONGTEXT) ENGINE = MyISAM; \
                     INSERT INTO t VALUES (1, {long}), (2, 'short')"
                ));
                assert_eq!(both.compare(&format!("a row of {payload} bytes"), "SELECT a, v FROM t"), 2);
                let sql = "SELECT a, v FROM t";
                let (_, payloads) = both.ours_binary(sql, none()).unwrap();
                let lengths: [usize; 2] = [payloads[0].len(), payloads[1].len()];
                assert_eq!(lengths, [payload - overhead + binary, 1 + 1 + 1 + 6], "{}", both.server.version());
            }
        }
        // Two full packets and an empty one.
        let (long, _) = long_text(2 * FULL - 2 - 9);
        assert_eq!(both.compare("a row of two full packets", &format!("SELECT '1', {long}")), 1);
    }
}

#[test]
fn a_text_row_that_begins_with_sixteen_mebibytes_is_no_end_of_rows() {
    for mut both in Both::all() {
        // Lengths from 16 MiB on are written as the byte that also begins the packet after the last row.
        for length in [FULL - 4, FULL - 3, FULL, FULL + 1, MORE_THAN_A_PACKET, 2 * FULL - 9, 2 * FULL] {
            let (long, text) = long_text(length);
            let sql = format!("SELECT {long} UNION ALL SELECT 'short' UNION ALL SELECT NULL");
            let rows = both.ours.rows(&sql).unwrap();
            let wanted = vec![vec![Some(text)], vec![Some(b"short".to_vec())], vec![None]];
            assert!(rows == wanted, "{length} bytes, text protocol, {}", both.server.version());
            assert_eq!(both.ours.query(&sql).unwrap().rows, 3, "{length} bytes, text protocol");
            let (_, payloads) = both.ours_binary(&sql, none()).unwrap();
            let theirs: Vec<Vec<u8>> = both.theirs_binary(&sql).unwrap().iter().map(binary_payload).collect();
            assert!(payloads == theirs, "{length} bytes, binary protocol, {}", both.server.version());
        }
    }
}

#[test]
fn vectors_read_as_the_server_writes_them_in_hexadecimal() {
    let Some(server) = Server::mysql(&[PACKETS]) else { return };
    let mut both = Both::on(server);
    both.set_up("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VECTOR(16383) NULL)");
    both.set_up(
        "INSERT INTO t (v) VALUES (STRING_TO_VECTOR('[1]')), (STRING_TO_VECTOR('[-0.5, 3.4e38]')), (NULL), \
         (STRING_TO_VECTOR(CONCAT('[', REPEAT('1.5,', 16382), '2]')))",
    );
    let hexadecimal = both.theirs_text("SELECT HEX(v) FROM t ORDER BY id").unwrap();
    let wanted: Vec<Option<String>> = hexadecimal.iter().map(|row| row.get(0)).collect();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let rows = both.ours.rows("SELECT v FROM t ORDER BY id").unwrap();
    let texts: Vec<Option<String>> = rows.iter().map(|row| row[0].as_deref().map(hex)).collect();
    assert!(texts == wanted, "VECTOR, text protocol");
    let (_, payloads) = both.ours_binary("SELECT v FROM t ORDER BY id", none()).unwrap();
    let payload = |vector: &Option<String>| match vector {
        None => "0004".to_string(),
        Some(vector) => {
            let mut start = vec![0, 0];
            push_lenenc(&mut start, vector.len() / 2);
            hex(&start) + vector
        }
    };
    let wanted: Vec<String> = wanted.iter().map(payload).collect();
    assert!(payloads.iter().map(|row| hex(row)).collect::<Vec<_>>() == wanted, "VECTOR, binary protocol");
}

#[test]
fn rows_in_any_number_and_results_in_any_number_read_the_same() {
    for mut both in Both::all() {
        both.set_up(
            "CREATE TABLE n (id INT PRIMARY KEY); INSERT INTO n VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
        );
        let many = "SELECT a.id, b.id, CONCAT(c.id, d.id, e.id) FROM n a, n b, n c, n d, n e";
        assert_eq!(both.compare("100,000 rows", many), 100_000);
        assert_eq!(both.compare("no rows", "SELECT * FROM n WHERE id > 9"), 0);
        let columns: Vec<String> = (0..1000).map(|at| format!("id AS c{at}")).collect();
        assert_eq!(both.compare("1,000 columns", &format!("SELECT {} FROM n", columns.join(", "))), 10);
        both.set_up(
            "CREATE PROCEDURE several(rows_wanted INT) BEGIN \
             SELECT id FROM n WHERE id < rows_wanted; SELECT id, id FROM n WHERE id > 9; DO 1; \
             UPDATE n SET id = id; SELECT id, id, id FROM n; END",
        );
        assert_eq!(both.compare("results of a procedure", "CALL several(3)"), 13);
        both.set_up("CREATE PROCEDURE none() DO 1");
        assert_eq!(both.compare("a procedure without results", "CALL none()"), 0);
        assert_eq!(both.compare("a statement without columns", "DO 1"), 0);
        for sql in [
            "SELECT 1; SELECT 2, 3 UNION SELECT 4, 5; DO 1; SELECT id FROM n WHERE id > 9; SELECT NULL",
            "DO 1; SELECT id FROM n; CALL several(2); SELECT ''",
            "DO 1; DO 2",
        ] {
            let theirs: Vec<Values> = both.theirs_text(sql).unwrap().iter().map(values).collect();
            let place = format!("{sql}, text protocol, {}", both.server.version());
            let ours = both.ours.rows(sql).unwrap();
            assert_same(&place, &ours, &theirs, |row| row.iter().flatten().flatten().copied().collect());
            assert_eq!(both.ours.query(sql).unwrap().rows, theirs.len() as u64, "{place}");
        }
    }
}

/// Statements in order, with how many rows each changes. None of them leaves a row that it finds as it is: sqlx has such
/// rows counted too, and sysbench and we have not.
const CHANGES: &[(&str, u64)] = &[
    ("INSERT INTO {} (v) VALUES ('a'), ('b'), ('c')", 3),
    ("UPDATE {} SET v = CONCAT(v, '!')", 3),
    ("REPLACE INTO {} (id, v) VALUES (1, 'x'), (100, 'y')", 3),
    ("INSERT INTO {} (id, v) VALUES (1, 'z') ON DUPLICATE KEY UPDATE v = 'zz'", 2),
    ("INSERT IGNORE INTO {} (id, v) VALUES (1, 'a'), (2, 'b')", 0),
    ("INSERT INTO {} (v) SELECT 'many' FROM n a, n b, n c LIMIT 251", 251),
    ("INSERT INTO {} (v) SELECT 'many' FROM n a, n b, n c, n d, n e LIMIT 70000", 70_000),
    ("DELETE FROM {} WHERE v = 'many'", 70_251),
    ("UPDATE {} SET v = 'none' WHERE id = 0", 0),
    ("ALTER TABLE {} AUTO_INCREMENT = 18446744073709551600", 0),
    ("INSERT INTO {} (v) VALUES ('late')", 1),
    ("UPDATE {} SET v = LAST_INSERT_ID(18446744073709551615) WHERE id = 1", 1),
    ("DELETE FROM {}", 5),
];

#[test]
fn changed_rows_and_last_ids_are_the_same() {
    for mut both in Both::all() {
        both.set_up(
            "CREATE TABLE n (id INT PRIMARY KEY); INSERT INTO n VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)",
        );
        for prepared in [false, true] {
            for table in ["ours", "theirs"] {
                both.set_up(&format!(
                    "DROP TABLE IF EXISTS {table}; \
                     CREATE TABLE {table} (id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, v VARCHAR(40))"
                ));
            }
            for (sql, changed) in CHANGES {
                let place = format!("{sql}, prepared: {prepared}, {}", both.server.version());
                let (ours, theirs) = (sql.replace("{}", "ours"), sql.replace("{}", "theirs"));
                let theirs: MySqlQueryResult = both
                    .runtime
                    .block_on(async {
                        match prepared {
                            true => sqlx::query(AssertSqlSafe(theirs)).execute(&mut both.theirs).await,
                            false => sqlx::raw_sql(AssertSqlSafe(theirs)).execute(&mut both.theirs).await,
                        }
                    })
                    .unwrap_or_else(|error| panic!("{place}: {error}"));
                let ours = match prepared {
                    true => {
                        let statement = both.ours.prepare(&ours).unwrap().statement;
                        both.ours.execute_into(statement, none(), &mut Skip)
                    }
                    false => both.ours.query(&ours),
                };
                let ours = ours.unwrap_or_else(|fault| panic!("{place}: {fault:?}"));
                assert_eq!((ours.affected, ours.rows), (theirs.rows_affected(), 0), "{place}");
                assert_eq!(ours.affected, *changed, "{place}");
                let said = both.ours.rows("SHOW COUNT(*) WARNINGS").unwrap();
                assert_eq!(said[0][0].as_deref(), Some(ours.warnings.to_string().as_bytes()), "{place}: warnings");
                // Our client drops the id, so it can only be shown that it got past it and that it was the same.
                if sql.contains("(v)") || sql.contains("LAST_INSERT_ID") {
                    let id = both.ours.rows("SELECT LAST_INSERT_ID()").unwrap();
                    assert_eq!(id[0][0].as_deref(), Some(theirs.last_insert_id().to_string().as_bytes()), "{place}");
                }
            }
        }
    }
}

#[test]
fn arguments_of_any_size_arrive_and_come_back() {
    for mut both in Both::all() {
        let sql = "SELECT CAST(? AS SIGNED), CONCAT(?), CAST(? AS SIGNED)";
        for length in [0, 1, 250, 251, 65_535, 65_536, FULL - 64, FULL, MORE_THAN_A_PACKET] {
            for number in [i64::MIN, 0, i64::MAX] {
                let (_, text) = long_text(length);
                let text = String::from_utf8(text).unwrap();
                let query = sqlx::query(sql).bind(number).bind(&text).bind(-1i64);
                let theirs = both.runtime.block_on(query.fetch_all(&mut both.theirs)).unwrap();
                let values = [Value::Int(number), Value::Text { start: 0, end: length }, Value::Int(-1)];
                let (_, ours) = both.ours_binary(sql, Arguments::of(&values, &text)).unwrap();
                let place = format!("an argument of {length} bytes, {}", both.server.version());
                let theirs: Vec<Vec<u8>> = theirs.iter().map(binary_payload).collect();
                assert_same(&place, &ours, &theirs, Vec::clone);
            }
        }
    }
}

#[test]
fn errors_are_the_same_and_leave_the_connection_in_use() {
    for mut both in Both::all() {
        for sql in [
            "SELECT nothing",
            "SELECT",
            "SELECT 1 UNION ALL SELECT (SELECT 2 UNION SELECT 3)",
            "CALL missing()",
            "SELECT * FROM missing",
            "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'made by the test: ä', MYSQL_ERRNO = 65534",
        ] {
            let place = format!("{sql}, {}", both.server.version());
            let ours_text = both.ours.query(sql).unwrap_err();
            let theirs_text = both.theirs_text(sql).map(|_| ()).unwrap_err();
            let ours_binary = both.ours_binary(sql, none()).map(|_| ()).unwrap_err();
            let theirs_binary = both.theirs_binary(sql).map(|_| ()).unwrap_err();
            for (ours, theirs) in [(ours_text, theirs_text), (ours_binary, theirs_binary)] {
                let theirs = theirs.as_database_error().unwrap_or_else(|| panic!("{place}: {theirs}"));
                let number = theirs.downcast_ref::<MySqlDatabaseError>().number();
                assert_eq!((ours.code, ours.message.as_str()), (i64::from(number), theirs.message()), "{place}");
                assert_eq!(Some(ours.sqlstate.as_str()), theirs.code().as_deref(), "{place}");
            }
            assert_eq!(both.ours.query("SELECT 1").unwrap().rows, 1, "{place}");
        }
    }
}
