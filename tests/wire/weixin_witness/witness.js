// Runs the official client's own functions against a simulator and prints what they returned, one JSON object.
// Arguments: base URL, token, user id. Reads nothing from the network but that base URL.
import { createRequire } from "node:module";
import path from "node:path";

const [baseUrl, token, user] = process.argv.slice(2);
const home = path.dirname(createRequire(import.meta.url).resolve("@tencent-weixin/openclaw-weixin/package.json"));
const load = (file) => import(path.join(home, "dist", "src", file));

// The client's login host is a constant: send those requests to the simulator instead.
const plainFetch = globalThis.fetch;
globalThis.fetch = (url, options) =>
  plainFetch(String(url).replace(/^https:\/\/ilinkai\.weixin\.qq\.com\//, `${baseUrl}/`), options);

const api = await load("api/api.js");
const login = await load("auth/login-qr.js");
const seen = {};
const send = (contextToken, text) =>
  api.sendMessage({
    baseUrl,
    token,
    body: {
      msg: {
        from_user_id: "",
        to_user_id: user,
        client_id: `openclaw-weixin:${Date.now()}-${text}`,
        message_type: 2,
        message_state: 2,
        item_list: [{ type: 1, text_item: { text } }],
        context_token: contextToken,
      },
    },
  });
const failure = (promise) => promise.then(() => "", (error) => String(error.message ?? error));

seen.start = await api.notifyStart({ baseUrl, token });
seen.updates = await api.getUpdates({ baseUrl, token, get_updates_buf: "", timeoutMs: 30000 });
const context = seen.updates.msgs[0].context_token;
seen.config = await api.getConfig({ baseUrl, token, ilinkUserId: user, contextToken: context });
const typing = (status) => ({ ilink_user_id: user, typing_ticket: seen.config.typing_ticket, status });
await api.sendTyping({ baseUrl, token, body: typing(1) });
seen.sent = await send(context, "one");
seen.swallowed = await send(context, "two");
seen.empty = await send(context, "three");
seen.emptyBody = await failure(send(context, "four"));
seen.refused = await failure(send(context, "five"));
seen.errcodeOnly = await send(context, "six");
seen.gateway = await failure(send(context, "seven"));
seen.cut = await failure(send(context, "eight"));
await api.sendTyping({ baseUrl, token, body: typing(2) });
seen.upload = await api.getUploadUrl({
  baseUrl,
  token,
  filekey: "0123456789abcdef0123456789abcdef",
  media_type: 1,
  to_user_id: user,
  rawsize: 20,
  rawfilemd5: "d41d8cd98f00b204e9800998ecf8427e",
  filesize: 32,
  no_need_thumb: true,
  aeskey: "00112233445566778899aabbccddeeff",
});
seen.idle = await api.getUpdates({
  baseUrl,
  token,
  get_updates_buf: seen.updates.get_updates_buf,
  timeoutMs: 300,
});
seen.stop = await api.notifyStop({ baseUrl, token });
const begun = await login.startWeixinLoginWithQr({ force: true });
seen.qr = begun.qrcodeUrl;
seen.login = await login.waitForWeixinLogin({ sessionKey: begun.sessionKey, timeoutMs: 20000 });
seen.stale = await api.getUpdates({ baseUrl, token, get_updates_buf: "", timeoutMs: 5000 });
// The client's login writes progress to standard output: the result is the last line.
process.stdout.write(`\n${JSON.stringify(seen)}\n`);
