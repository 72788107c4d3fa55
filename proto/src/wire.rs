//! Messages of the operators' API: generated from `proto/tidegate/v1/operator.proto`.

#[expect(missing_docs, reason = "generated")]
pub mod v1 {
    tonic::include_proto!("tidegate.v1");
}
