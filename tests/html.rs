//! The HTML report in a browser: what is there, that it loads and complains of nothing, and that it fits the screen.

mod support;

use std::path::{Path, PathBuf};

use support::browser::Browser;
use support::program::{OutputAssertExt, oltpbench, succeed};

const WIDTHS: [u32; 2] = [1280, 390];
const THEMES: [&str; 2] = ["light", "dark"];
/// Would be seen as a message of the console if it was run.
const SCRIPT: &str = "<script>console.error('hi')</script>\"'&";

/// One run whose texts are hostile, as a page.
fn single(folder: &Path) -> PathBuf {
    let json = folder.join("single.json");
    let mut run = oltpbench(&["run", "--url", "simulated:?service-time=1ms", "--threads", "2", "--time", "3"]);
    run.args(["--rate", "100", "--name", SCRIPT, "--tag", &format!("k={SCRIPT}"), "--json"]).arg(&json);
    run.assert().success();
    page(&json)
}

/// An experiment of two targets and numbers of threads, as a page.
fn sweep(folder: &Path) -> PathBuf {
    let runs = folder.join("sweep");
    let mut run = oltpbench(&["run", "--threads", "1,4", "--time", "1", "--dir"]);
    run.arg(&runs).args(["--target", "direct=simulated:?service-time=1ms"]);
    run.args(["--target", "proxy=simulated:?service-time=2ms"]);
    run.assert().success();
    page(&runs)
}

fn page(runs: &Path) -> PathBuf {
    let page = runs.with_extension("html");
    let [runs, out] = [runs, &page].map(|path| path.to_str().unwrap());
    assert_eq!(succeed(&["report", "--format", "html", "--output", out, runs]), "");
    page
}

/// What must hold on any screen.
fn check(browser: &mut Browser, page: &Path, name: &str) {
    for (width, theme) in WIDTHS.iter().flat_map(|width| THEMES.map(|theme| (*width, theme))) {
        browser.open(page, width, theme);
        let shown = format!("{name} at {width} pixels, {theme}");
        // For whoever wants to look.
        let pictures = Path::new(env!("CARGO_TARGET_TMPDIR")).join("html");
        browser.picture(&pictures.join(format!("{name}-{width}-{theme}.png")));
        assert_eq!(browser.complaints(), [""; 0], "{shown}");
        let wider = "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 \
                     && !e.closest('.scroll, .unseen')).map(e => e.outerHTML.slice(0, 99)).join()";
        assert_eq!(browser.evaluate(wider), "", "{shown}");
        assert_eq!(browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), true, "{shown}");
        let drawn = "[...document.querySelectorAll('.chart')].every(chart => chart.closest('details:not([open])') \
                     || [...chart.querySelectorAll('svg')].filter(svg => svg.getClientRects().length > 0).length == 1)";
        assert_eq!(browser.evaluate(drawn), true, "{shown}");
        let dark = browser.evaluate("getComputedStyle(document.body).backgroundColor == 'rgb(21, 23, 26)'");
        assert_eq!(dark, theme == "dark", "{shown}");
    }
}

#[test]
fn a_run_is_a_page_that_fits_all_screens_and_can_be_read_aloud() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = single(folder.path());
    check(&mut browser, &page, "single");

    assert_eq!(browser.evaluate("document.querySelector('h1').textContent"), SCRIPT);
    let told = browser.read_aloud();
    let of_role = |role: &str| -> Vec<&str> {
        told.iter().filter(|(each, _)| each == role).map(|(_, name)| name.as_str()).collect()
    };
    let images = of_role("image").join("\n");
    for chart in
        ["Transactions a second: tps from ", "Response time (ms): p50 from ", "Latency by percentile (ms): response"]
    {
        assert!(images.contains(chart), "{images}");
    }
    let tables = of_role("table");
    for table in ["Latencies in milliseconds", "Counts", "Set-up", "Client", "Open loop"] {
        assert!(tables.contains(&table), "{tables:?}");
    }
    assert!(told.iter().all(|(role, name)| role != "table" || !name.is_empty()), "{tables:?}");
}

#[test]
fn charts_are_read_by_arrow_keys_and_tables_open_by_keyboard() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    browser.open(&single(folder.path()), 1280, "light");
    browser.evaluate("document.querySelector('.plot').focus()");
    let tooltip = "document.querySelector('.tooltip').innerText";
    browser.press("ArrowRight");
    let first = browser.evaluate(tooltip).as_str().unwrap().to_string();
    assert!(first.starts_with("0 to 1 s\ntps: "), "{first}");
    browser.press("End");
    let last = browser.evaluate(tooltip).as_str().unwrap().to_string();
    assert!(last.starts_with("2 to 3 s\ntps: "), "{last}");
    browser.press("Escape");
    assert_eq!(browser.evaluate("document.querySelector('.tooltip').hidden"), true);
    browser.evaluate("document.querySelector('.chart summary').focus()");
    browser.press("Enter");
    assert_eq!(browser.evaluate("document.querySelector('.chart details').open"), true);
}

#[test]
fn an_experiment_is_a_page_with_charts_of_its_sweep_and_a_link_to_each_run() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = sweep(folder.path());
    check(&mut browser, &page, "sweep");

    assert_eq!(browser.evaluate("document.querySelector('h1').textContent"), "4 runs");
    let titles = "[...document.querySelectorAll('main > .chart figcaption strong')].map(title => title.textContent)";
    let titles = browser.evaluate(titles);
    assert_eq!(titles[0], "Transactions a second, by threads", "{titles}");
    let lines = "[...document.querySelector('.legend').children].map(line => line.textContent)";
    let lines = browser.evaluate(lines);
    assert_eq!(lines, serde_json::json!(["direct", "proxy"]));
    let headings = browser.evaluate("[...document.querySelectorAll('h2')].map(h => h.textContent)").to_string();
    assert!(headings.contains("Compared with direct, the baseline"), "{headings}");
    let tables = "[...document.querySelectorAll('caption')].map(caption => caption.textContent).join()";
    let tables = browser.evaluate(tables).to_string();
    for table in ["proxy: oltp_read_only, 4 threads", "direct: oltp_read_only by threads, closed loop"] {
        assert!(tables.contains(table), "{tables}");
    }
    let page = browser.evaluate("document.body.innerText").to_string();
    // Of one repeat there is no verdict, and of two numbers of threads no law; both are said.
    for said in ["none, of a single run each", "Peak", "not fitted: it has three parameters"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    assert_eq!(browser.evaluate("document.querySelectorAll('.run[open]').length"), 0);
    browser.evaluate("document.querySelector('tbody a').focus()");
    browser.press("Enter");
    let open = "document.querySelectorAll('.run')[0].open && scrollY > 0";
    assert_eq!(browser.evaluate(open), true);
}

#[test]
fn on_paper_tables_are_open_and_whole_and_nothing_is_dark() {
    let Some(mut browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    browser.open(&single(folder.path()), 794, "dark");
    assert!(browser.print().starts_with(b"%PDF"));
    assert_eq!(browser.evaluate("[...document.querySelectorAll('details')].every(details => details.open)"), true);
    browser.show_as("print", "dark");
    browser.picture(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("html/paper.png"));
    assert_eq!(browser.evaluate("getComputedStyle(document.body).backgroundColor"), "rgb(255, 255, 255)");
    let cut = "[...document.querySelectorAll('.scroll')].filter(e => e.scrollHeight > e.clientHeight + 1 \
               || getComputedStyle(e).overflowX != 'visible').length";
    assert_eq!(browser.evaluate(cut), 0);
}
