//! Who obeys and reports: the daemon on each node.

fn main() -> std::process::ExitCode {
    tidegate_agent::cli::main()
}
