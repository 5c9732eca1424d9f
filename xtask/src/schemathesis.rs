//! Tests the API from its own OpenAPI document, with schemathesis, against a server of its own: a free
//! port, a data folder that is thrown away, a fixed seed and a bound on time.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cargo::{self, Workspace};
use crate::server;

const VERSION: &str = "4.32.5";
/// The same as in `schemathesis.toml`.
const KEY: &str = "the-key-of-the-schemathesis-step";
/// A server that has not said by then where it listens will not.
const START_MAX: Duration = Duration::from_mins(1);
/// It takes a minute, twice that on a busy machine.
const RUN_MAX: Duration = Duration::from_mins(5);

/// Runs it. `Err` when the server answers anything that its document does not say.
pub fn test(workspace: &Workspace) -> Result<(), String> {
    let program = provide(&workspace.target)?;
    let tenure = server::build(workspace)?;
    let folder = workspace.target.join("tmp/schemathesis");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| format!("could not make {}: {error}", folder.display()))?;
    let server = Server::start(&tenure, &folder)?;
    let mut command = Command::new(program);
    command
        .arg("--config-file")
        .arg(cargo::root().join("crates/server/schemathesis.toml"))
        .args(["--no-color", "run", "--request-timeout", "70"])
        .arg(format!("{}/openapi.json", server.url))
        // It leaves its notes where it runs.
        .current_dir(&folder)
        .stdin(Stdio::null());
    let child = command.spawn().map_err(|error| format!("could not start schemathesis: {error}"))?;
    finish(child, RUN_MAX)?;
    drop(server);
    let _ = fs::remove_dir_all(&folder);
    Ok(())
}

/// The program, in an environment of its own. The version stands in the folder's name: raising it installs
/// anew.
fn provide(target: &Path) -> Result<PathBuf, String> {
    let folder = target.join("tools").join(format!("schemathesis-{VERSION}"));
    let program = folder.join("bin/schemathesis");
    if works(&program) {
        return Ok(program);
    }
    println!("installing schemathesis {VERSION}, once");
    // What an earlier try left behind is no use.
    let _ = fs::remove_dir_all(&folder);
    let mut environment = Command::new("python3");
    environment.args(["-m", "venv"]).arg(&folder).stdin(Stdio::null());
    cargo::run_command(environment, "python3 -m venv")?;
    let mut install = Command::new(folder.join("bin/python"));
    install
        .args(["-m", "pip", "install", "--quiet", &format!("schemathesis=={VERSION}")])
        .stdin(Stdio::null());
    cargo::run_command(install, "pip install schemathesis")?;
    Ok(program)
}

/// It runs: an environment that was moved, or whose Python is gone, is there and of no use.
fn works(program: &Path) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A running server, stopped when it is dropped.
struct Server {
    process: Child,
    url: String,
}

impl Server {
    fn start(program: &Path, folder: &Path) -> Result<Self, String> {
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--data"])
            .arg(folder.join("data"))
            .env("TENURE_ADMIN_KEY", KEY)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        for group in ["READ", "WRITE", "STREAM", "ADMIN", "SIGN_IN"] {
            command.env(format!("TENURE_RATES_{group}_PER_SECOND"), "0");
        }
        for group in ["RESERVE", "AMEND"] {
            command.env(format!("TENURE_RATES_{group}_PER_MINUTE"), "0");
        }
        let mut process = command.spawn().map_err(|error| format!("could not start the server: {error}"))?;
        let output = process.stdout.take();
        let (sender, told) = mpsc::channel();
        thread::spawn(move || {
            for line in
                output.into_iter().flat_map(|output| BufReader::new(output).lines()).map_while(Result::ok)
            {
                if let Some(url) = line.strip_prefix("Listening on ") {
                    let _ = sender.send(url.to_owned());
                }
            }
        });
        let mut server = Self { process, url: String::new() };
        server.url = told
            .recv_timeout(START_MAX)
            .map_err(|_| "the server ended, or did not say where it listens".to_owned())?;
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Waits for the end, and no longer than that.
fn finish(mut child: Child, most: Duration) -> Result<(), String> {
    let start = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(format!("schemathesis found something: {status}")),
            Ok(None) if start.elapsed() < most => thread::sleep(Duration::from_millis(100)),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("schemathesis was not done after {} s", most.as_secs()));
            }
            Err(error) => return Err(format!("could not wait for schemathesis: {error}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_too_long_is_ended_and_what_fails_is_told() {
        let child = |program: &str, argument: &str| {
            Command::new(program).arg(argument).stdin(Stdio::null()).spawn().unwrap()
        };
        let late = finish(child("sleep", "600"), Duration::from_millis(1)).unwrap_err();
        assert!(late.contains("was not done"), "{late}");
        let failed = finish(child("test", ""), RUN_MAX).unwrap_err();
        assert!(failed.contains("found something"), "{failed}");
        finish(child("true", ""), RUN_MAX).unwrap();
    }

    #[test]
    fn the_key_is_the_one_of_its_configuration() {
        let path = cargo::root().join("crates/server/schemathesis.toml");
        assert!(fs::read_to_string(path).unwrap().contains(&format!("Bearer {KEY}")));
    }
}
