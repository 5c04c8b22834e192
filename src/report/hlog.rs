//! Latencies as a log of HdrHistogram's, which HistogramLogAnalyzer, HdrHistogramVisualizer and the like read.
//!
//! A report keeps one histogram for the whole window, so each distribution is one interval of the log. Tags tell them
//! apart: `response`, `service` in an open loop, and the kinds of statement, with the run's name before where there are
//! several runs.
//!
//! Must not import: `engine`, `target`, `workload`, `cli`.

use std::time::{Duration, SystemTime};

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use super::Latency;
use super::saved::{Saved, labels};

#[derive(Debug, thiserror::Error)]
pub enum HlogError {
    #[error("the histogram `{tag}` of {run} cannot be read; the file is damaged, so write it again with run --json")]
    Histogram { run: String, tag: String },
    #[error("{run} says that it started at `{started_at}`, which is no time; the file is damaged")]
    Started { run: String, started_at: String },
    #[error("the log cannot be written ({0})")]
    Write(String),
}

/// Maxima in the log are milliseconds, values in the histograms nanoseconds: what the tools take for granted.
const NANOSECONDS_PER_MILLISECOND: f64 = 1e6;

/// One distribution of a run.
struct Distribution<'a> {
    tag: String,
    run: &'a str,
    latency: &'a Latency,
    started: SystemTime,
    length: Duration,
}

pub fn log(runs: &[Saved]) -> Result<String, HlogError> {
    let labels = labels(runs);
    let mut all = Vec::new();
    for (run, label) in runs.iter().zip(&labels) {
        all.extend(distributions(run, label, runs.len() > 1)?);
    }
    // Readers expect the intervals in the order of their times.
    all.sort_by_key(|distribution| distribution.started);
    let base = all.first().map_or(SystemTime::UNIX_EPOCH, |first| first.started);
    let mut bytes = Vec::new();
    write(&mut bytes, base, &all)?;
    String::from_utf8(bytes).map_err(|error| HlogError::Write(error.to_string()))
}

fn distributions<'a>(run: &'a Saved, label: &'a str, several: bool) -> Result<Vec<Distribution<'a>>, HlogError> {
    let report = &run.report;
    let started = humantime::parse_rfc3339(&report.started_at)
        .map_err(|_| HlogError::Started { run: label.into(), started_at: report.started_at.clone() })?;
    let length = Duration::try_from_secs_f64(report.totals.elapsed_s).unwrap_or_default();
    let mut named = vec![("response", &report.latency_us.response)];
    // In a closed loop the two are the same.
    named.extend(report.open_loop.as_ref().map(|_| ("service", &report.latency_us.service)));
    named.extend(report.statements.iter().map(|statement| (statement.name.as_str(), &statement.latency_us)));
    let tag = |name: &str| if several { tag(&format!("{label}/{name}")) } else { tag(name) };
    let distribution = |(name, latency)| Distribution { tag: tag(name), run: label, latency, started, length };
    Ok(named.into_iter().map(distribution).collect())
}

/// A tag has no comma and no blank.
fn tag(name: &str) -> String {
    name.chars().map(|c| if c == ',' || c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

fn write(bytes: &mut Vec<u8>, base: SystemTime, all: &[Distribution<'_>]) -> Result<(), HlogError> {
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .add_comment("Response times and statements of oltpbench, in nanoseconds; each interval is a whole window")
        .with_base_time(base)
        .with_start_time(base)
        .with_max_value_divisor(NANOSECONDS_PER_MILLISECOND)
        .begin_log_with(bytes, &mut serializer)
        .map_err(|error| HlogError::Write(format!("{error:?}")))?;
    for Distribution { tag, run, latency, started, length } in all {
        let damaged = || HlogError::Histogram { run: run.to_string(), tag: tag.clone() };
        let buckets = latency.buckets().ok_or_else(damaged)?;
        let since = started.duration_since(base).unwrap_or_default();
        writer
            .write_histogram(&buckets, since, *length, Tag::new(tag))
            .map_err(|error| HlogError::Write(format!("{error:?}")))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use super::*;
    use crate::report::example;

    #[test]
    fn a_log_is_read_back_with_tags_times_and_maxima() {
        let (first, mut second) = (example::saved("x/a b.json"), example::open_saved("x/c.json"));
        second.report.started_at = "1970-01-01T00:01:00Z".into();
        let log = log(&[second, first]).unwrap();
        let mut seen = Vec::new();
        for entry in IntervalLogIterator::new(log.as_bytes()) {
            if let LogEntry::Interval(entry) = entry.unwrap() {
                let tag = entry.tag().unwrap().as_str().to_string();
                seen.push((tag, entry.start_timestamp().as_secs(), entry.duration().as_secs(), entry.max()));
            }
        }
        let expected = [
            ("a_b/response", 0, 2.0),
            ("a_b/point_select", 0, 0.199),
            ("c/response", 60, 2.0),
            ("c/service", 60, 1.899),
            ("c/point_select", 60, 0.199),
        ];
        assert_eq!(seen.len(), expected.len(), "{log}");
        for ((tag, start, length, max_ms), (expected_tag, expected_start, expected_max_ms)) in seen.iter().zip(expected)
        {
            assert_eq!((tag.as_str(), *start, *length), (expected_tag, expected_start, 10));
            assert!((max_ms - expected_max_ms).abs() < 0.002, "{max_ms}");
        }
    }

    #[test]
    fn a_damaged_histogram_is_named() {
        let mut run = example::saved("a.json");
        run.report.statements[0].latency_us.histogram = "damaged".into();
        assert!(log(&[run]).unwrap_err().to_string().contains("`point_select` of a cannot be read"));
    }
}
