//! Compiles the operators' messages with protox, so that no protoc is needed for them, and keeps what the files declare
//! for `verb`.

use protox::Compiler;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    if std::env::var_os("CARGO_FEATURE_WIRE").is_none() {
        return Ok(());
    }
    let mut compiler = Compiler::new(["proto"])?;
    compiler.include_imports(true).include_source_info(true).open_files([
        "tidegate/v1/operator.proto",
        "tidegate/v1/releases.proto",
        "tidegate/v1/metadata.proto",
    ])?;
    let out = std::env::var("OUT_DIR")?;
    // With options and comments, which the types of prost do not keep.
    std::fs::write(format!("{out}/descriptors.bin"), compiler.encode_file_descriptor_set())?;
    let mut files = compiler.file_descriptor_set();
    let is_message =
        |name: &str| name != "google/protobuf/descriptor.proto" && name != "tidegate/v1/verb.proto";
    files.file.retain(|file| is_message(file.name()));
    tonic_prost_build::configure()
        // So that `--json` of the command line is the message itself, in a steady order.
        .type_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)]")
        .enum_attribute("UpgradeSeen.seen", "#[serde(rename_all = \"snake_case\")]")
        .field_attribute("UpgradeSeen.seen", "#[serde(flatten)]")
        .btree_map(".")
        .compile_fds(files)?;
    Ok(())
}
