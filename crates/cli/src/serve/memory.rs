//! How memory is given back. The fold lets go of what the engine's thread allocated, and by its defaults the allocator
//! makes up for that in one go, in the middle of an allocation: every few seconds, 2 to 5 ms in which nobody is answered.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Pages are looked through rarely, since each is looked at anyway before it is used again; what nobody has used for a
/// minute goes back to the system.
const SETTINGS: [(&str, &str); 2] =
    [("MIMALLOC_GENERIC_COLLECT", "1000000"), ("MIMALLOC_PURGE_DELAY", "60000")];

/// The allocator reads its settings before `main`, from the environment: this program is begun anew with them, as the same
/// process. Where somebody has set them, or where it cannot, it goes on as it is.
pub(super) fn settle() {
    if SETTINGS.iter().any(|(name, _)| std::env::var_os(name).is_some()) {
        return;
    }
    let mut arguments = std::env::args_os();
    let (Ok(program), Some(name)) = (std::env::current_exe(), arguments.next()) else { return };
    // Started by something else, a loader for one, that would not know what to do with the arguments.
    if program.file_name() != Path::new(&name).file_name() {
        return;
    }
    let mut again = Command::new(program);
    again.arg0(name);
    // It answers only if it failed.
    let _ = again.args(arguments).envs(SETTINGS).exec();
}
