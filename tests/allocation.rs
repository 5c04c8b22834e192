//! Playing a transaction, sending it to MySQL, recording it and making a row must not allocate: the client's cost must
//! not depend on the allocator.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::convert::Infallible;
use std::sync::Arc;

use oltpbench::metrics::{Connection, Outcome, Recorder, Sample, Shards, Statements, Window};
use oltpbench::spec::{Protocol, TargetAddress};
use oltpbench::target::mysql::{MySqlSession, MySqlTarget};
use oltpbench::target::{Fault, Session, Target};
use oltpbench::workload::plan::{Argument, Call, Operation, Plan, Player};
use oltpbench::workload::{OptionValue, RandomKind, RandomSettings, Settings, Workload};

use support::null_server::{Behaviour, NullServer};

/// Counts what the calling thread allocates, so that the test harness's own threads do not matter.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is handed on to the system's allocator unchanged; counting touches a thread-local without a
// destructor only, which neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Looks at every argument, as a session does.
struct Reading(usize);

impl Player for Reading {
    type Fault = Infallible;

    fn begin(&mut self, _writes: bool) -> Result<(), Infallible> {
        Ok(())
    }

    fn execute(&mut self, call: Call<'_>) -> Result<(), Infallible> {
        for argument in call.arguments.iter() {
            self.0 += match argument {
                Argument::Int(_) | Argument::Auto => 8,
                Argument::Text(text) => text.len(),
            };
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Sends everything, as a worker does.
struct Sending(MySqlSession);

impl Player for Sending {
    type Fault = Fault;

    fn begin(&mut self, writes: bool) -> Result<(), Fault> {
        self.0.begin(writes)
    }

    fn execute(&mut self, call: Call<'_>) -> Result<(), Fault> {
        self.0.execute(call).map(drop)
    }

    fn commit(&mut self) -> Result<(), Fault> {
        self.0.commit()
    }
}

fn plan(name: &str, kind: RandomKind) -> Plan {
    plan_with(name, kind, &[])
}

fn plan_with(name: &str, kind: RandomKind, options: &[(&str, i64)]) -> Plan {
    let random = RandomSettings { kind, ..RandomSettings::default() };
    let options = options.iter().map(|(name, value)| (name.to_string(), OptionValue::Int(*value))).collect();
    Workload::load(name).unwrap().compile(&Settings { options, threads: 4, random }).unwrap()
}

#[test]
fn playing_allocates_in_the_first_transaction_only() {
    use RandomKind::*;
    for (name, kind) in Workload::builtin_names()
        .into_iter()
        .flat_map(|name| [Uniform, Gaussian, Special, Pareto, Zipfian].map(|kind| (name, kind)))
    {
        let plan = plan(name, kind);
        let mut scratch = plan.scratch();
        let mut reading = Reading(0);
        let mut play = |ticket| {
            let operation = Operation { seed: 1, ticket, worker: 1, worker_ticket: ticket };
            let Ok(()) = plan.play(operation, &mut scratch, &mut reading);
        };
        play(0);
        let before = ALLOCATIONS.get();
        assert!(before > 0, "the counting allocator is in use");
        (1..20).for_each(&mut play);
        assert_eq!(ALLOCATIONS.get() - before, 0, "{name} {kind:?}");
        assert!(reading.0 > 0, "{name}");
    }
}

#[test]
fn a_mysql_session_allocates_in_its_first_transactions_only() {
    const WARM_UP: u64 = 20;
    const MEASURED: u64 = 200;
    for (name, protocol) in ["oltp_point_select", "oltp_update_index", "oltp_update_non_index", "oltp_read_write"]
        .into_iter()
        .flat_map(|name| [Protocol::Prepared, Protocol::Text].map(|protocol| (name, protocol)))
    {
        let server = NullServer::start(0, Behaviour::Prompt).unwrap();
        let TargetAddress::MySql(address) = TargetAddress::parse(&server.url()).unwrap() else { unreachable!() };
        let plan = Arc::new(plan_with(name, RandomKind::Special, &[("tables", 2)]));
        let target = MySqlTarget::new(*address, Arc::clone(&plan), protocol).unwrap();
        let mut scratch = plan.scratch();
        let mut sending = Sending(target.connect().unwrap());
        let mut play = |ticket| {
            let operation = Operation { seed: 1, ticket, worker: 1, worker_ticket: ticket };
            plan.play(operation, &mut scratch, &mut sending).unwrap();
        };
        let before = ALLOCATIONS.get();
        // Statements are prepared, each for both tables, and buffers grow.
        (0..WARM_UP).for_each(&mut play);
        assert!(ALLOCATIONS.get() > before, "the counting allocator is in use");
        let before = ALLOCATIONS.get();
        (WARM_UP..WARM_UP + MEASURED).for_each(&mut play);
        assert_eq!(ALLOCATIONS.get() - before, 0, "{name} {protocol:?}");
        drop(sending);
        if name == "oltp_point_select" {
            assert_eq!(server.sent().rows, WARM_UP + MEASURED, "each statement was answered");
        }
    }
}

#[test]
fn rows_allocate_once_only() {
    let plan = plan("oltp_read_only", RandomKind::Uniform);
    let mut scratch = plan.scratch();
    plan.tables[0].row(1, 1, 1, &mut scratch);
    let before = ALLOCATIONS.get();
    let texts: usize = (2..100).map(|id| plan.tables[0].row(1, 1, id, &mut scratch).iter().count()).sum();
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert_eq!(texts, 98 * 4);
}

#[test]
fn recording_allocates_nothing_however_often_its_slices_are_taken() {
    let window = Window::new(0, u64::MAX, 1_000_000_000);
    let slice_ns = window.slice_ns();
    let recorder = Recorder::new(window, Shards::new(2, 1), 1);
    let latencies = [(0, 1_000), (0, 2_000)];
    let mut taken = 0;
    let before = ALLOCATIONS.get();
    for number in 0..20 {
        for worker in 0..4 {
            let end_ns = number * slice_ns + u64::from(worker) * 1_000_000;
            let sample = Sample {
                due_ns: end_ns,
                end_ns,
                paced: None,
                outcome: Outcome::Committed,
                statements: Statements { reads: 2, writes: 0, other: 0 },
                latencies: &latencies,
                failed_statements: Statements::default(),
                retries: 0,
                errors: &[],
                connection: Connection::Unchanged,
                prepares: &[300],
                turned_to_text: false,
            };
            recorder.record(worker, &sample);
        }
        // The slice before is over and this one has begun, as when the coordinator takes it.
        recorder.take(number, |_, tally, _| taken += tally.transactions);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
    assert_eq!(taken, 19 * 4);
}
