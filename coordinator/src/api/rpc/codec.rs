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
    type Encoder = RequestEncoder;
    type Decoder = AnswerDecoder;

    fn encoder(&mut self) -> RequestEncoder {
        RequestEncoder
    }

    fn decoder(&mut self) -> AnswerDecoder {
        AnswerDecoder(self.0.clone())
    }
}

pub(super) struct RequestEncoder;

impl Encoder for RequestEncoder {
    type Item = DynamicMessage;
    type Error = Status;

    fn encode(&mut self, message: DynamicMessage, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        message.encode(into).map_err(|e| Status::internal(e.to_string()))
    }
}

pub(super) struct AnswerDecoder(MessageDescriptor);

impl Decoder for AnswerDecoder {
    type Item = DynamicMessage;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<DynamicMessage>, Status> {
        let message = DynamicMessage::decode(self.0.clone(), from);
        message.map(Some).map_err(|e| Status::internal(e.to_string()))
    }
}
