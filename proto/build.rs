//! Compiles the operators' messages with protox, so that no protoc is needed for them, and keeps what the files declare
//! for `verb`.

use protox::Compiler;
use protox::prost_reflect::{DescriptorPool, MethodDescriptor, ServiceDescriptor};

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
    std::fs::write(format!("{out}/rpcs.rs"), rpcs(&compiler.descriptor_pool()))?;
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

/// A macro for each service, which hands the rpcs to another macro, sorted by who answers and how.
fn rpcs(pool: &DescriptorPool) -> String {
    pool.services().map(|service| rpcs_of(&service)).collect()
}

fn rpcs_of(service: &ServiceDescriptor) -> String {
    let rpcs = |kind: Kind| -> String {
        let methods = service.methods().filter(|method| kind_of(method) == kind);
        methods.map(|method| format!("            {}\n", rpc(&method))).collect()
    };
    let name = snake(service.name());
    format!(
        "/// Hands every rpc of the service `{service}` to a macro.\n#[macro_export]\nmacro_rules! {name}_rpcs {{\n    ($serve:ident) => {{\n        $serve! {{\n            {service} {name} {name}_server\n            changes {{\n{}            }}\n            looks {{\n{}            }}\n            always {{\n{}            }}\n            views {{\n{}            }}\n            led {{\n{}            }}\n            lines {{\n{}            }}\n        }}\n    }};\n}}\n",
        rpcs(Kind::Changes),
        rpcs(Kind::Looks),
        rpcs(Kind::Always),
        rpcs(Kind::Views),
        rpcs(Kind::Led),
        rpcs(Kind::Lines),
        service = service.name(),
    )
}

#[derive(PartialEq)]
enum Kind {
    /// Goes to the leader, in the caller's name.
    Changes,
    /// Any coordinator answers with a message.
    Looks,
    /// The same, also before it has read the store.
    Always,
    /// Any coordinator answers with a JSON text.
    Views,
    /// The leader answers with a JSON text.
    Led,
    /// Any coordinator answers with several messages.
    Lines,
}

fn kind_of(method: &MethodDescriptor) -> Kind {
    let is_text = method.output().name() == "JsonReply";
    match answers(method) {
        _ if method.is_server_streaming() => Kind::Lines,
        _ if method.input().get_field_by_name("who").is_some() => Kind::Changes,
        Some(1) => Kind::Led,
        Some(2) => Kind::Always,
        _ if is_text => Kind::Views,
        _ => Kind::Looks,
    }
}

/// The number of the option's field `answers`.
fn answers(method: &MethodDescriptor) -> Option<i32> {
    let option = method.parent_pool().get_extension_by_name("tidegate.v1.verb")?;
    let options = method.options();
    let verb = options.get_extension(&option);
    verb.as_message()?.get_field_by_name("answers")?.as_enum_number()
}

/// Its name, that of its stream of answers where it has one, and its two messages.
fn rpc(method: &MethodDescriptor) -> String {
    let (name, input, output) = (method.name(), method.input(), method.output());
    let stream = if method.is_server_streaming() { format!("{name}Stream ") } else { String::new() };
    format!("({} {stream}{} {})", snake(name), input.name(), output.name())
}

fn snake(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(letter.to_lowercase());
    }
    snake
}
