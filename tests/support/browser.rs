//! Chromium without a window, driven over the pipe of its DevTools protocol.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use std::{env, fs, thread};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(60);
/// The protocol's pipe is at the descriptors 3 and 4, where a shell can put what is at 0 and 1.
const START: &str = r#"exec chromium --headless --remote-debugging-pipe --no-sandbox --disable-gpu --no-first-run \
    --disable-dev-shm-usage --disable-background-networking --disable-component-update --hide-scrollbars \
    --user-data-dir="$1" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null"#;

/// A browser with one tab.
pub struct Browser {
    process: Child,
    commands: ChildStdin,
    messages: Receiver<Value>,
    last_id: u64,
    tab: Option<String>,
    /// What the tab said of itself since it was last asked.
    events: Vec<Value>,
    _profile: TempDir,
}

impl Browser {
    /// Without Chromium on this machine it says so and returns `None`; with `CI=true` it panics.
    pub fn start() -> Option<Browser> {
        let path = env::var_os("PATH").unwrap_or_default();
        if !env::split_paths(&path).any(|folder| folder.join("chromium").is_file()) {
            let remedy = "Chromium is not installed (run scripts/test as root, or apt-get install chromium)";
            assert!(env::var_os("CI").is_none_or(|ci| ci != "true"), "{remedy}");
            // Unlike eprintln!, this is not hidden by the test harness when the test passes.
            let _ = writeln!(io::stderr(), "SKIPPED: {remedy}");
            return None;
        }
        let profile = tempfile::Builder::new().prefix("oltpbench-chromium-").tempdir().expect("a temporary folder");
        let mut process = Command::new("sh")
            .args(["-c", START, "sh"])
            .arg(profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .expect("a shell starts");
        let (commands, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let (sender, messages) = channel();
        thread::spawn(move || {
            for message in BufReader::new(answers).split(0) {
                let Ok(message) = message else { return };
                let message = serde_json::from_slice(&message).expect("the protocol is JSON");
                if sender.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser =
            Browser { process, commands, messages, last_id: 0, tab: None, events: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let tab = browser.call("Target.attachToTarget", json!({ "targetId": target["targetId"], "flatten": true }));
        browser.tab = Some(tab["sessionId"].as_str().unwrap().to_string());
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Opens a file as on a screen so wide, with the given theme, and waits until it is loaded.
    pub fn open(&mut self, file: &Path, width: u32, theme: &str) {
        let screen = json!({ "width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", screen);
        self.show_as("screen", theme);
        self.events.clear();
        self.call("Page.navigate", json!({ "url": format!("file://{}", file.display()) }));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            let message = self.receive();
            self.events.push(message);
        }
    }

    /// On a medium, `screen` or `print`.
    pub fn show_as(&mut self, medium: &str, theme: &str) {
        let theme = json!([{ "name": "prefers-color-scheme", "value": theme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "media": medium, "features": theme }));
    }

    /// What the console said and all that was asked for beside the page itself, since the page was opened.
    pub fn complaints(&mut self) -> Vec<String> {
        // What came before this answer has been said.
        self.evaluate("0");
        let told = |event: &Value| {
            let url = event["params"]["request"]["url"].as_str().unwrap_or_default();
            match event["method"].as_str()? {
                "Network.requestWillBeSent" => (!url.starts_with("file:")).then(|| url.to_string()),
                "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => {
                    Some(event["params"].to_string())
                }
                _ => None,
            }
        };
        self.events.iter().filter_map(told).collect()
    }

    /// The value of an expression of JavaScript.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let result = self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    pub fn press(&mut self, key: &str) {
        // A key that types something only acts if it does.
        let text = if key == "Enter" { "\r" } else { "" };
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyDown", "key": key, "code": key, "text": text }));
        self.call("Input.dispatchKeyEvent", json!({ "type": "keyUp", "key": key, "code": key }));
    }

    /// Role and name of all that a screen reader is told of, in the page's order.
    pub fn read_aloud(&mut self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false);
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_string();
        nodes.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    /// Saves a picture of the whole page.
    pub fn picture(&mut self, file: &Path) {
        let picture = self.call("Page.captureScreenshot", json!({ "captureBeyondViewport": true }));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()).unwrap();
    }

    /// The page as a PDF.
    pub fn print(&mut self) -> Vec<u8> {
        let document = self.call("Page.printToPDF", json!({}));
        STANDARD.decode(document["data"].as_str().unwrap()).unwrap()
    }

    #[track_caller]
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        let mut command = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(tab) = &self.tab {
            command["sessionId"] = json!(tab);
        }
        self.commands.write_all(format!("{command}\0").as_bytes()).expect("Chromium takes commands");
        loop {
            let message = self.receive();
            if message["id"] == self.last_id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    fn receive(&mut self) -> Value {
        self.messages.recv_timeout(PATIENCE).expect("Chromium answers within a minute")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // All of its processes at once, since the profile's folder is removed next.
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
    }
}
