//! The launcher of the code reward's sandbox. It is started by the library, not by hand.

use std::process::ExitCode;

fn main() -> ExitCode {
    #[cfg(all(target_os = "linux", feature = "code"))]
    if let Some(code) = grpo_rewards::code::launch_if_asked() {
        return code;
    }
    eprintln!("grpo-sandbox: this program is started by grpo-rewards, on Linux, to run code in a sandbox");
    ExitCode::from(2)
}
