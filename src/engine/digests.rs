//! Which shapes of statement kept the server busy: the differences of its digests over the window.
//!
//! A server has one digest for each table. Those that differ in the number of a plan's table alone are put together.
//! Must not import `report` or `cli`.

use std::collections::BTreeMap;

use crate::metrics::server::DigestRise;
use crate::target::Digest;
use crate::workload::plan::Plan;

/// How many are told.
const MOST: usize = 10;

/// Those that took the longest together, first.
pub(super) fn longest(before: &[Digest], after: Vec<Digest>, plan: &Plan) -> Vec<DigestRise> {
    let before: BTreeMap<&str, &Digest> = before.iter().map(|digest| (digest.id.as_str(), digest)).collect();
    let mut rises: BTreeMap<String, DigestRise> = BTreeMap::new();
    for digest in after {
        let rise = rise(before.get(digest.id.as_str()).copied(), &digest);
        if rise.count == 0 {
            continue;
        }
        let text = without_numbers(&digest.text, plan.tables.iter().map(|set| set.name.as_str()));
        let empty =
            DigestRise { text: text.clone(), count: 0, total_s: 0.0, longest_s: rise.longest_s, rows_examined: 0 };
        let sum = rises.entry(text).or_insert(empty);
        sum.count += rise.count;
        sum.total_s += rise.total_s;
        // One that is not known might be the longest of all.
        sum.longest_s = sum.longest_s.zip(rise.longest_s).map(|(one, other)| one.max(other));
        sum.rows_examined += rise.rows_examined;
    }
    let mut rises: Vec<DigestRise> = rises.into_values().collect();
    rises.sort_by(|one, other| other.total_s.total_cmp(&one.total_s));
    rises.truncate(MOST);
    rises
}

fn rise(before: Option<&Digest>, after: &Digest) -> DigestRise {
    // What is less than before was forgotten in between and began anew.
    let before = before.filter(|before| before.count <= after.count);
    let since = |count: fn(&Digest) -> u64| count(after).saturating_sub(before.map_or(0, count));
    DigestRise {
        text: String::new(),
        count: since(|digest| digest.count),
        total_s: seconds(since(|digest| digest.total_ps)),
        longest_s: before.is_none_or(|before| before.longest_ps < after.longest_ps).then(|| seconds(after.longest_ps)),
        rows_examined: since(|digest| digest.rows_examined),
    }
}

fn seconds(ps: u64) -> f64 {
    ps as f64 / 1e12
}

/// `sbtest17` becomes `sbtest#`, between backquotes and for these names only.
fn without_numbers<'a>(text: &str, names: impl Iterator<Item = &'a str> + Clone) -> String {
    let parts = text.split('`').map(|part| {
        let stem = part.trim_end_matches(|character: char| character.is_ascii_digit());
        match stem.len() < part.len() && names.clone().any(|name| name == stem) {
            true => format!("{stem}#"),
            false => part.to_string(),
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Settings, Workload};

    fn digest(id: &str, text: &str, count: u64, total_ps: u64, longest_ps: u64) -> Digest {
        Digest { id: id.into(), text: text.into(), count, total_ps, longest_ps, rows_examined: 2 * count }
    }

    fn select(number: u32, count: u64, longest_ps: u64) -> Digest {
        let text = format!("SELECT `c1` FROM `sbtest{number}` WHERE `id` = ?");
        digest(&number.to_string(), &text, count, count * 1_000_000, longest_ps)
    }

    #[test]
    fn tables_are_put_together_and_what_was_before_is_not_counted() {
        let plan = Workload::load("oltp_read_only").unwrap().compile(&Settings::default()).unwrap();
        let commit = digest("c", "COMMIT", 50, 90_000_000, 5_000_000);
        let before = [select(1, 10, 7_000_000), commit.clone()];
        let after = vec![commit, select(1, 30, 8_000_000), select(2, 5, 3_000_000)];
        let rises = longest(&before, after, &plan);
        let expected = DigestRise {
            text: "SELECT `c1` FROM `sbtest#` WHERE `id` = ?".into(),
            count: 25,
            total_s: 25e-6,
            longest_s: Some(8e-6),
            rows_examined: 50,
        };
        assert_eq!(rises, [expected]);
        // The longest one was before.
        let rises = longest(&[select(1, 10, 8_000_000)], vec![select(1, 30, 8_000_000)], &plan);
        assert_eq!((rises[0].count, rises[0].longest_s), (20, None));
    }
}
