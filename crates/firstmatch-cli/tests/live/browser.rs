//! Chromium without a window, driven through pipes.

use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use firstmatch_testkit::skip;
use serde_json::{Value, json};

use crate::namespace::Folder;

/// Browser with one tab. It is killed at the end.
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    calls: u64,
    session: Value,
    /// Messages that were no answers.
    pub(crate) events: Vec<Value>,
    _profile: Folder,
}

/// Returns the program; `None` where there is none, which is an error with `REQUIRE_BROWSER=1`.
pub(crate) fn program(test: &str) -> Option<&'static str> {
    let is_there =
        |name: &&str| env::split_paths(&env::var_os("PATH").unwrap()).any(|folder| folder.join(name).exists());
    let found = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(is_there);
    if found.is_none() {
        assert!(env::var_os("REQUIRE_BROWSER").is_none_or(|value| value != "1"), "{test}: there is no chromium");
        skip(&format!("SKIP {test}: there is no chromium"));
    }
    found
}

impl Browser {
    pub(crate) fn start(program: &str) -> Self {
        let profile = Folder::new("browser");
        let pipe = |name: &str| {
            let path = profile.0.join(name);
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            path
        };
        let (input, output) = (pipe("in"), pipe("out"));
        // Only a shell gives a program files of the numbers 3 and 4.
        let line = "exec \"$0\" --headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
             --user-data-dir=\"$1\" --remote-debugging-pipe 3<\"$2\" 4>\"$3\"";
        let mut shell = Command::new("sh");
        shell.args(["-c", line, program]).arg(profile.0.join("profile")).args([&input, &output]);
        let child = shell.env("HOME", &profile.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = child.spawn().unwrap();
        let to = File::options().write(true).open(input).unwrap();
        let from = BufReader::new(File::open(output).unwrap());
        let mut browser =
            Self { child, to, from, calls: 0, session: Value::Null, events: Vec::new(), _profile: profile };
        let tab = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let session = browser.call("Target.attachToTarget", json!({ "targetId": tab["targetId"], "flatten": true }));
        browser.session = session["sessionId"].clone();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method of the browser's debugging interface, and returns its result.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.calls += 1;
        let mut message = json!({ "id": self.calls, "method": method, "params": parameters });
        if !self.session.is_null() {
            message["sessionId"] = self.session.clone();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        loop {
            let mut line = Vec::new();
            assert!(self.from.read_until(0, &mut line).unwrap() > 0, "the browser has ended");
            line.pop();
            let message: Value = serde_json::from_slice(&line).unwrap();
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {message}");
                return message["result"].clone();
            }
            self.events.push(message);
        }
    }

    /// Returns the value of an expression in the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let parameters = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", parameters);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {result}");
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true in the page.
    pub(crate) fn wait_for(&mut self, expression: &str) {
        self.value(&format!(
            "new Promise((done) => {{ const look = () => ({expression}) ? done(1) : setTimeout(look, 20); look(); }})"
        ));
    }

    /// Sets the size of the window and the colours.
    pub(crate) fn resize(&mut self, width: u32, scheme: &str) {
        let size = json!({ "width": width, "height": 1_000, "deviceScaleFactor": 1, "mobile": false });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call("Emulation.setEmulatedMedia", json!({ "features": features }));
    }

    /// Writes a picture of the window, in the format that the file's name ends with: `png`, `jpeg` or `webp`.
    pub(crate) fn picture(&mut self, path: &Path) {
        let format = path.extension().unwrap().to_str().unwrap();
        let picture = self.call("Page.captureScreenshot", json!({ "format": format, "quality": 60 }));
        let mut decoder =
            Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(File::create(path).unwrap()).spawn().unwrap();
        decoder.stdin.take().unwrap().write_all(picture["data"].as_str().unwrap().as_bytes()).unwrap();
        assert!(decoder.wait().unwrap().success());
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
