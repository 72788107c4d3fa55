//! Messages whose types are known at run time only.

use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Of an rpc whose answers are such messages.
pub(super) struct Json(pub(super) MessageDescriptor);

impl Codec for Json {
    type Encode = DynamicMessage;
    type Decode = DynamicMessage;
    type Encoder = Asked;
    type Decoder = Told;

    fn encoder(&mut self) -> Asked {
        Asked
    }

    fn decoder(&mut self) -> Told {
        Told(self.0.clone())
    }
}

pub(super) struct Asked;

impl Encoder for Asked {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(into).map_err(|e| Status::internal(e.to_string()))
    }
}

pub(super) struct Told(MessageDescriptor);

impl Decoder for Told {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let message = DynamicMessage::decode(self.0.clone(), from);
        message.map(Some).map_err(|e| Status::internal(e.to_string()))
    }
}
