//! Images and files in requests to models.

use serde_json::json;
use shared::{
    Accepts, Attachment, AttachmentKind, Content, FaultKind, Message, Request, Response, ToolCall, ToolOutput,
};

use super::{hello, reply, stream};
use crate::world::{
    Stage, chat, child, due,
    endpoint::{Endpoint, provider, words},
    fault, live_of, live_with, perform, servers,
};

/// Contents of attachments in memory. Each is kept under the number of its bytes.
struct Contents(std::sync::Mutex<std::collections::BTreeMap<String, Vec<u8>>>);

#[async_trait::async_trait]
impl world::Attachments for Contents {
    async fn content(&self, _: uuid::Uuid, sha256: &str) -> Result<Option<Vec<u8>>, store::Error> {
        Ok(self.0.lock().unwrap().get(sha256).cloned())
    }

    async fn keep(&self, thread: uuid::Uuid, content: Vec<u8>) -> Result<String, store::Error> {
        if content.len() == 13 {
            return Err(store::Error::UnknownThread(thread));
        }
        let name = format!("{} bytes", content.len());
        self.0.lock().unwrap().insert(name.clone(), content);
        Ok(name)
    }
}

/// An image of a tool result is stored and given to a model that takes images. Another model reads that there is one.
#[tokio::test]
async fn a_model_is_given_the_images_of_tool_results() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let endpoint = Endpoint::serve([(); 3].map(|()| stream([words("A cat.")], "stop"))).await;
    let world = |kinds: &[AttachmentKind]| {
        let provider = provider(&endpoint.base_url, std::time::Duration::from_secs(20));
        let models = world::Models::new([("local".to_owned(), provider)].into()).unwrap();
        let accepts = Accepts([("local".to_owned(), kinds.iter().copied().collect())].into());
        let servers = servers([("desk", child::server([]))]);
        let contents = std::sync::Arc::new(Contents(std::sync::Mutex::default()));
        live_with(models.with_accepts(accepts), servers).with_attachments(contents)
    };
    let call = ToolCall { id: "c1".to_owned(), name: "album".to_owned(), arguments: json!({}) };
    let request = due(Request::CallTool { server: "desk".to_owned(), call: call.clone() });
    let (seeing, blind) = (world(&[AttachmentKind::Image]), world(&[]));
    let result = async |world: &world::LiveWorld| match perform(world, &hello(), &request).await.0 {
        Ok((Response::OutputWithExtras { output: ToolOutput::Ok(text), extras }, _)) => {
            (text, extras.content)
        }
        other => panic!("{other:?}"),
    };
    let (text, content) = result(&seeing).await;
    assert_eq!(text, "[image image/png, 3 B]\n[image image/tiff, 3 B]\n[image image/png, 15 B]");
    let picture = Attachment {
        kind: AttachmentKind::Image,
        media_type: "image/png".to_owned(),
        name: String::new(),
        sha256: "3 bytes".to_owned(),
        bytes: 3,
    };
    let [Content::Attached { attachment }, Content::Image { .. }, Content::Image { .. }] = &content[..]
    else {
        panic!("models take no TIFF, and one image cannot be stored: {content:?}")
    };
    assert_eq!(*attachment, picture);
    let (_, content) = result(&blind).await;
    assert!(
        content.iter().all(|part| matches!(part, Content::Image { .. })),
        "no model takes images: {content:?}"
    );

    let asked = Message { tool_calls: vec![call.clone()], ..Message::assistant("") };
    let result = Message { attachments: vec![picture], ..Message::tool(&call, text.clone()) };
    let stage = Stage::hearing([Message::user("Look"), asked, result, Message::user("Well?")]);
    let look = due(chat("local/gpt", 0..4));
    assert_eq!(reply(perform(&seeing, &stage, &look).await.0).0.content, "A cat.");
    assert_eq!(reply(perform(&blind, &stage, &look).await.0).0.content, "A cat.", "it is not refused");
    let sent: Vec<_> = endpoint.received().into_iter().map(|(_, body)| body["messages"].clone()).collect();
    let image = json!([
        { "type": "text", "text": "Images in the result of the tool call c1:" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
    ]);
    let result_sent = json!({ "role": "tool", "content": text, "tool_call_id": "c1" });
    let well = json!({ "role": "user", "content": "Well?" });
    assert_eq!(
        sent[0].as_array().unwrap()[3..],
        [result_sent.clone(), json!({ "role": "user", "content": image }), well.clone()]
    );
    assert_eq!(sent[1].as_array().unwrap()[3..], [result_sent, well]);
    // The results of one message stay together, as providers require.
    let alone = Stage::hearing(stage.messages[1..3].to_vec());
    reply(perform(&seeing, &alone, &due(chat("local/gpt", 0..2))).await.0);
    assert_eq!(endpoint.received()[2].1["messages"].as_array().unwrap().last().unwrap()["role"], "user");
}

#[tokio::test]
async fn a_model_is_given_the_images_and_files_that_it_takes() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let endpoint = Endpoint::serve([stream([words("A cat.")], "stop")]).await;
    let attachment = |kind, media_type: &str, name: &str, sha256: &str| Attachment {
        kind,
        media_type: media_type.to_owned(),
        name: name.to_owned(),
        sha256: sha256.to_owned(),
        bytes: 2,
    };
    let picture = attachment(AttachmentKind::Image, "image/png", "", "p");
    let paper = attachment(AttachmentKind::File, "application/pdf", "a.pdf", "f");
    let world = |kinds: &[AttachmentKind], contents: &[&str]| {
        let provider = provider(&endpoint.base_url, std::time::Duration::from_secs(20));
        let models = world::Models::new([("local".to_owned(), provider)].into()).unwrap();
        let accepts = Accepts([("local".to_owned(), kinds.iter().copied().collect())].into());
        let contents = contents.iter().map(|name| ((*name).to_owned(), b"hi".to_vec())).collect();
        live_of(models.with_accepts(accepts))
            .with_attachments(std::sync::Arc::new(Contents(std::sync::Mutex::new(contents))))
    };
    let looks = |attachments: Vec<Attachment>| {
        Stage::hearing([Message { attachments, ..Message::user("What is it?") }])
    };
    let both = looks(vec![picture.clone(), paper.clone()]);
    let due = due(chat("local/gpt", 0..1));
    let (image, file) = (AttachmentKind::Image, AttachmentKind::File);

    let refused = fault(perform(&world(&[image], &["p", "f"]), &both, &due).await.0);
    assert_eq!(refused.kind, FaultKind::Permanent);
    assert!(
        refused.error.starts_with("model local/gpt takes no files") && refused.error.contains("a.pdf"),
        "{refused:?}"
    );
    let missing = fault(perform(&world(&[image, file], &["p"]), &both, &due).await.0);
    assert!(missing.error.contains("a.pdf") && missing.error.contains("is missing"), "{missing:?}");
    assert_eq!(endpoint.received().len(), 0, "nothing was sent");

    assert_eq!(reply(perform(&world(&[image, file], &["p", "f"]), &both, &due).await.0).0.content, "A cat.");
    let (_, body) = endpoint.received().remove(0);
    let expected = json!([
        { "type": "text", "text": "What is it?" },
        { "type": "image_url", "image_url": { "url": "data:image/png;base64,aGk=" } },
        { "type": "file", "file": { "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk=" } },
    ]);
    assert_eq!(body["messages"][1]["content"], expected);
}
