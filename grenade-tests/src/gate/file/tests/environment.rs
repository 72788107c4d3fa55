use std::path::Path;

use super::{GOOD, findings};
use crate::gate::file::parse;

#[test]
fn port_in_the_environment_is_enough() {
    let in_env = GOOD.replacen("--port, \"{port}\", ", "", 1);
    let in_env = in_env.replace("# env: {LOG: \"warn\"}", "env: {PORT: \"{port}\"}");
    assert!(in_env.contains("env: {PORT") && in_env.len() != GOOD.len());
    parse(&in_env, Path::new("gate.yaml"), Path::new("/")).unwrap();
    let in_none = in_env.replace("{PORT: \"{port}\"}", "{PORT: \"80\"}");
    let said = findings(&in_none);
    assert!(said.contains("service.base.command: has neither {port} nor {address}, nor has `env`"), "{said}");
}
