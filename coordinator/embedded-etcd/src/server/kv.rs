//! Range, put, delete, transaction, compaction.

use std::pin::Pin;

use etcd_client::proto::{
    PbCompactionRequest, PbCompactionResponse, PbDeleteRequest, PbDeleteResponse, PbKvService, PbPutRequest,
    PbPutResponse, PbRangeRequest, PbRangeResponse, PbRangeStreamResponse, PbTxnRequest, PbTxnResponse,
};
use futures::Stream;
use prost::Message;
use tonic::{Request, Response, Status, async_trait};

use super::Api;
use crate::{refusal::Refusal, txn::check};

impl Api {
    fn bounded(&self, request: &impl Message) -> Result<(), Refusal> {
        if request.encoded_len() > self.max_request { Err(Refusal::TooLarge) } else { Ok(()) }
    }
}

#[async_trait]
impl PbKvService for Api {
    type RangeStreamStream = Pin<Box<dyn Stream<Item = Result<PbRangeStreamResponse, Status>> + Send>>;

    async fn range(&self, request: Request<PbRangeRequest>) -> Result<Response<PbRangeResponse>, Status> {
        let request = request.into_inner();
        check::range(&request)?;
        let mut response = self.engine.read(|state| state.kv.range(&request, state.kv.revision())).await?;
        self.sign(&mut response.header);
        Ok(Response::new(response))
    }

    async fn range_stream(
        &self,
        _: Request<PbRangeRequest>,
    ) -> Result<Response<Self::RangeStreamStream>, Status> {
        Err(Refusal::NotOffered("reading a range as a stream").into())
    }

    async fn put(&self, request: Request<PbPutRequest>) -> Result<Response<PbPutResponse>, Status> {
        let request = request.into_inner();
        check::put(&request)?;
        self.bounded(&request)?;
        let mut response = self
            .engine
            .write(|writer| {
                writer.check_put(&request)?;
                Ok(writer.put(request))
            })
            .await?;
        self.sign(&mut response.header);
        Ok(Response::new(response))
    }

    async fn delete_range(
        &self,
        request: Request<PbDeleteRequest>,
    ) -> Result<Response<PbDeleteResponse>, Status> {
        let request = request.into_inner();
        check::delete(&request)?;
        self.bounded(&request)?;
        let mut response = self.engine.write(|writer| Ok(writer.delete(&request))).await?;
        self.sign(&mut response.header);
        Ok(Response::new(response))
    }

    async fn txn(&self, request: Request<PbTxnRequest>) -> Result<Response<PbTxnResponse>, Status> {
        let request = request.into_inner();
        check::txn(&request)?;
        self.bounded(&request)?;
        let mut response = self.engine.write(|writer| writer.txn(&request)).await?;
        self.sign(&mut response.header);
        Ok(Response::new(response))
    }

    async fn compact(
        &self,
        request: Request<PbCompactionRequest>,
    ) -> Result<Response<PbCompactionResponse>, Status> {
        let revision = self.engine.compact(request.into_inner().revision).await?;
        Ok(Response::new(PbCompactionResponse { header: Some(self.engine.header(revision)) }))
    }
}
