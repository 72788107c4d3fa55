//! Compiles the operators' messages with protox, so that no protoc is needed for them.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    if std::env::var_os("CARGO_FEATURE_WIRE").is_none() {
        return Ok(());
    }
    let files = protox::compile(
        ["tidegate/v1/operator.proto", "tidegate/v1/releases.proto", "tidegate/v1/metadata.proto"],
        ["proto"],
    )?;
    tonic_prost_build::configure()
        // So that `--json` of the command line is the message itself, in a steady order.
        .type_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)]")
        .enum_attribute("UpgradeSeen.seen", "#[serde(rename_all = \"snake_case\")]")
        .field_attribute("UpgradeSeen.seen", "#[serde(flatten)]")
        .btree_map(".")
        .compile_fds(files)?;
    Ok(())
}
