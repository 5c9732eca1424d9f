//! Tries a package as a machine would that installs it, in a folder of its own: it is installed, its program runs, its
//! manual, completions and unit are read by what reads them, and it is taken away again. The machine itself stays as it
//! is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{SHELLS, UNITS, put, read, remove, run, said};
use crate::{cargo, tools};

const CONFIGURATION: &str = "etc/tenure/tenure.toml";

/// Everything that is promised of it.
pub(super) fn check(package: &Path, folder: &Path) -> Result<(), String> {
    let installed = Root::new(folder.join("installed"), package)?;
    installed.dpkg(&["--install"], package.as_os_str())?;
    let program = installed.path("usr/bin/tenure");
    let version = the_commit_is_told(&program)?;
    every_library_is_depended_on(&program, package)?;
    run(Command::new(&program)
        .arg("config")
        .arg("check")
        .arg("--config")
        .arg(installed.path(CONFIGURATION)))?;
    for path in ["usr/share/doc/tenure/copyright", "usr/share/doc/tenure/README.md"] {
        installed.has(path)?;
    }
    completions_are_read(&installed)?;
    pages_are_read(&installed.path("usr/share/man/man1"))?;
    units_are_read(&installed, folder)?;
    installed.dpkg(&["--remove"], "tenure".as_ref())?;
    installed.has(CONFIGURATION).map_err(|_| "removing it took the configuration along".to_owned())?;
    installed.dpkg(&["--purge"], "tenure".as_ref())?;
    let left = said(
        Command::new("find")
            .arg(&installed.folder)
            .args(["-path", "*/var/lib/dpkg", "-prune"])
            .args(["-o", "-type", "f", "-print"]),
    )?;
    if !left.is_empty() {
        return Err(format!("purging it left {left}"));
    }
    println!("{} installs, runs and goes: {}", package.display(), version.trim());
    Ok(())
}

/// A folder that dpkg takes for a machine, on which there is what the package depends on and nothing else.
struct Root {
    folder: PathBuf,
}

impl Root {
    fn new(folder: PathBuf, package: &Path) -> Result<Self, String> {
        remove(&folder)?;
        let mut status = String::new();
        for name in depends(package)? {
            // As this machine has them: what is not here or too old is missing there.
            let form = "Package: ${Package}\nStatus: ${Status}\nArchitecture: ${Architecture}\nVersion: ${Version}\n\
                        Maintainer: Debian <debian@debian.example>\nDescription: a library\n\n";
            status += &said(Command::new("dpkg-query").args(["--show", "--showformat", form, &name]))?;
        }
        for name in ["info", "updates", "triggers"] {
            let path = folder.join("var/lib/dpkg").join(name);
            fs::create_dir_all(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        put(&folder.join("var/lib/dpkg/status"), status.as_bytes(), 0o644)?;
        Ok(Self { folder })
    }

    /// Scripts are run without entering the folder, in which there is no shell; they are told of it.
    fn dpkg(&self, action: &[&str], what: &std::ffi::OsStr) -> Result<(), String> {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", self.folder.display()));
        command.args([
            "--force-not-root",
            "--force-script-chrootless",
            "--force-unsafe-io",
            "--log=/dev/null",
        ]);
        // Where a package's scripts look for programs; for whoever is not root it lacks some that dpkg asks for.
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        run(command.args(action).arg(what))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    fn has(&self, path: &str) -> Result<(), String> {
        if self.path(path).is_file() { Ok(()) } else { Err(format!("the package lacks {path}")) }
    }
}

/// The names in `Depends`, without their versions.
fn depends(package: &Path) -> Result<Vec<String>, String> {
    let said = said(Command::new("dpkg-deb").arg("--field").arg(package).arg("Depends"))?;
    let names = said.split(',').filter_map(|need| need.split_whitespace().next());
    Ok(names.map(str::to_owned).collect())
}

pub(super) fn the_commit_is_told(program: &Path) -> Result<String, String> {
    let version = said(Command::new(program).arg("--version"))?;
    let commit = cargo::commit()?;
    if version.contains(&format!("({commit})")) {
        return Ok(version);
    }
    Err(format!("`tenure --version` does not tell the commit {commit}: {version}"))
}

/// What the loader is asked for, by the file itself, is in a package that is depended on.
fn every_library_is_depended_on(program: &Path, package: &Path) -> Result<(), String> {
    let depends = depends(package)?;
    let header = said(Command::new("readelf").arg("--dynamic").arg("--wide").arg(program))?;
    let libraries: Vec<&str> = header
        .lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split_once('[')?.1.split_once(']').map(|(name, _)| name))
        .collect();
    if !libraries.iter().any(|name| name.starts_with("libc.so")) {
        return Err(format!("readelf names no libraries: {header}"));
    }
    for library in libraries {
        let owners = said(Command::new("dpkg").arg("--search").arg(format!("*/{library}")))?;
        let mut owners = owners.lines().filter_map(|line| line.split_once(':')).map(|(owner, _)| owner);
        if !owners.any(|owner| depends.iter().any(|name| name == owner)) {
            return Err(format!(
                "the program needs {library}, and the package depends on {}",
                depends.join(", ")
            ));
        }
    }
    Ok(())
}

/// Each shell parses its own, where it is there; bash, which is, also completes with it.
fn completions_are_read(installed: &Root) -> Result<(), String> {
    for (shell, path) in SHELLS {
        installed.has(path)?;
        if shell == "bash" || tools::find(shell).is_some() {
            run(Command::new(shell).arg("-n").arg(installed.path(path)))?;
        }
    }
    let script = ". \"$1\"; COMP_WORDS=(tenure ser); COMP_CWORD=1; _tenure tenure ser tenure; echo \"${COMPREPLY[@]}\"";
    let completed = said(Command::new("bash").args(["-c", script, "bash"]).arg(installed.path(SHELLS[0].1)))?;
    if completed.trim() == "serve" {
        Ok(())
    } else {
        Err(format!("`tenure ser` is completed as {completed}"))
    }
}

/// Every page is set without a warning.
fn pages_are_read(folder: &Path) -> Result<(), String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut count = 0;
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        // As `man` would, but without its own settings; a warning is no failure to groff.
        let set = "gzip -dc \"$1\" | groff -Kutf8 -man -Tutf8 -ww -z 2>&1";
        let warnings = said(Command::new("sh").args(["-c", set, "sh"]).arg(&path))?;
        if !warnings.trim().is_empty() {
            return Err(format!("{}: {}", path.display(), warnings.trim()));
        }
        count += 1;
    }
    // One for each command; there are more than twenty.
    if count < 10 { Err(format!("{count} pages of the manual in {}", folder.display())) } else { Ok(()) }
}

/// By systemd itself, with the installed program in the place of the one that it names.
fn units_are_read(installed: &Root, folder: &Path) -> Result<(), String> {
    let program = installed.path("usr/bin/tenure").display().to_string();
    // One of several nodes is read with a port.
    for (name, checked) in UNITS.into_iter().zip(["tenure.service", "tenure@8081.service"]) {
        let unit = read(&installed.path("lib/systemd/system").join(name))?;
        let unit = String::from_utf8(unit).map_err(|error| error.to_string())?;
        let place = folder.join("unit").join(checked);
        put(&place, unit.replace("/usr/bin/tenure", &program).as_bytes(), 0o644)?;
        // What it says of other units of this machine is nothing of ours.
        let mut verify = Command::new("systemd-analyze");
        run(verify.args(["verify", "--man=no", "--recursive-errors=no"]).arg(place))?;
    }
    Ok(())
}
