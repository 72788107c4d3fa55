//! The agent, a daemon on each node.

fn main() -> std::process::ExitCode {
    tidegate_agent::cli::main()
}
