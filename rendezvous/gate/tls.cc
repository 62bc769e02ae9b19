#include "rendezvous/gate/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/core/allowance.h"
#include "base/core/check.h"
#include "base/crypto/openssl_start.h"
#include "base/text/tokens.h"
#include "rendezvous/gate/plain.h"
#include "rendezvous/gate/tls_codec.h"

namespace muster::rendezvous {
namespace {

using Keys = std::vector<GateKey>;

constexpr char kCipher[] = "TLS_AES_128_GCM_SHA256";  // a key belongs to one hash function
constexpr std::array<unsigned char, 2> kCipherCode = {0x13, 0x01};
constexpr char kGroup[] = "X25519";
constexpr size_t kReadBytes = 16 * 1024;         // a TLS record has no more
constexpr size_t kMaxHandshakeBytes = 8 * 1024;  // with a key; an agent's has less than 1 KiB
// After the handshake. Each record takes some microseconds, though it be empty. An agent's frame has one
// (frame_guard.h).
constexpr double kRecordBurst = 500, kRecordsPerSecond = 1'000;
constexpr int kAlertOffset = SSL_AD_REASON_OFFSET;  // of the reason of an error that is an alert of the peer
constexpr std::string_view kBindingLabel = "EXPORTER-muster-attach";  // RFC 8446, section 7.5
constexpr size_t kBindingBytes = 32;
constexpr char kOtherToken[] = "it has another token, or belongs to another run";
// The server name of a client that shows its second token as soon as this one is refused. A server needs no name.
constexpr char kShowsNext[] = "another-token-follows";
constexpr char kNotThisJobs[] =
    "the token is not this job's, or the run id is not: set the same token (--token-file or MUSTER_TOKEN) and "
    "--rdzv-id on all nodes";

// What the callbacks of a connection use and find.
struct Handshake {
  std::shared_ptr<const Keys> keys;
  bool offered = false;  // the client has offered a key, though perhaps not one of ours
};

Handshake* HandshakeOf(SSL* ssl) { return static_cast<Handshake*>(SSL_get_app_data(ssl)); }

// Refuses a client without a key at its first message. The alert tells it that this job uses a token.
int DemandKey(SSL* ssl, int* alert, void* /*unused*/) {
  if (OffersKey(ssl)) return SSL_CLIENT_HELLO_SUCCESS;
  *alert = SSL_AD_UNKNOWN_PSK_IDENTITY;
  return SSL_CLIENT_HELLO_ERROR;
}

SSL_SESSION* SessionOf(SSL* ssl, const GateKey& key) {
  SSL_SESSION* const session = SSL_SESSION_new();
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kCipherCode.data());
  MUSTER_CHECK(session != nullptr && cipher != nullptr, "OpenSSL has the cipher");
  const auto* const secret = reinterpret_cast<const unsigned char*>(key.secret.data());
  const bool made = SSL_SESSION_set1_master_key(session, secret, key.secret.size()) == 1 &&
                    SSL_SESSION_set_cipher(session, cipher) == 1 &&
                    SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
  MUSTER_CHECK(made, "a key makes a session");
  return session;
}

int FindSession(SSL* ssl, const unsigned char* identity, size_t size, SSL_SESSION** session) {
  Handshake* const handshake = HandshakeOf(ssl);
  handshake->offered = true;
  *session = nullptr;
  const std::string_view wanted(reinterpret_cast<const char*>(identity), size);
  for (const GateKey& key : *handshake->keys) {
    if (key.identity == wanted) *session = SessionOf(ssl, key);
  }
  return 1;  // without a session the handshake goes on, and fails for want of a certificate
}

int UseSession(SSL* ssl, const EVP_MD* /*digest*/, const unsigned char** identity, size_t* size,
               SSL_SESSION** session) {
  const GateKey& key = HandshakeOf(ssl)->keys->front();
  *identity = reinterpret_cast<const unsigned char*>(key.identity.data());
  *size = key.identity.size();
  *session = SessionOf(ssl, key);
  return 1;
}

// Alerts by which a server refuses a key, RFC 8446, section 6.2. OpenSSL takes a client without a known key for
// one that needs a certificate.
bool RefusesKey(int alert) {
  return alert == SSL_AD_HANDSHAKE_FAILURE || alert == SSL_AD_ILLEGAL_PARAMETER || alert == SSL_AD_DECRYPT_ERROR ||
         alert == SSL_AD_UNKNOWN_PSK_IDENTITY;
}

// By the token.
class KeyProof : public TlsProof {
 public:
  KeyProof(std::shared_ptr<const Keys> keys, bool server, bool shows_next = false)
      : is_server_(server), shows_next_(shows_next) {
    handshake_.keys = std::move(keys);
  }

  void Attach(SSL* ssl) override {
    SSL_set_app_data(ssl, &handshake_);
    if (shows_next_) SSL_set_tlsext_host_name(ssl, kShowsNext);
  }

  // A server that proves nothing else could only show a certificate, which no client accepts.
  absl::Status Check(SSL* ssl) const override {
    return SSL_session_reused(ssl) == 1 ? absl::OkStatus() : absl::InvalidArgumentError("it proves no token");
  }

  absl::Status WhyRefused(SSL* ssl, int alert) const override {
    if (is_server_) return WhyClientIsRefused(ssl);
    if (alert == SSL_AD_NO_APPLICATION_PROTOCOL) {
      return absl::UnauthenticatedError(
          "this node has a token, and the coordinator has neither token nor certificates: give all nodes the same "
          "token (--token-file or MUSTER_TOKEN), or none");
    }
    if (alert == kNoCertificateAlert) {
      return absl::UnauthenticatedError(
          "this node has a token, and the coordinator uses certificates: give this node --tls-cert, --tls-key and "
          "--tls-ca in place of the token");
    }
    if (RefusesKey(alert)) return absl::UnauthenticatedError(kNotThisJobs);
    if (alert > 0) return OpenSslFault("the handshake");
    return absl::InvalidArgumentError("it does not know the token of this job");
  }

  absl::Status WhyNoTls(std::string* answer) const override {
    answer->append(kAlert);
    return absl::UnauthenticatedError("it has no token");
  }
  size_t max_handshake_bytes() const override { return kMaxHandshakeBytes; }

 private:
  absl::Status WhyClientIsRefused(SSL* ssl) const {
    if (!handshake_.offered) {
      return absl::UnauthenticatedError("it speaks TLS, but shows no token (does it have a certificate?)");
    }
    const char* const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
    const bool comes_back = name != nullptr && std::string_view(name) == kShowsNext;
    return absl::UnauthenticatedError(comes_back ? kFirstTokenRefused : kOtherToken);
  }

  Handshake handshake_;
  const bool is_server_;
  const bool shows_next_;
};

class TlsCodec : public Codec {
 public:
  TlsCodec(const std::shared_ptr<SSL_CTX>& context, std::unique_ptr<TlsProof> proof, bool server)
      : context_(context), proof_(std::move(proof)), ssl_(SSL_new(context.get()), &SSL_free), is_server_(server) {
    MUSTER_CHECK(ssl_ != nullptr, "OpenSSL makes a connection");
    proof_->Attach(ssl_.get());
    from_peer_ = BIO_new(BIO_s_mem());
    to_peer_ = BIO_new(BIO_s_mem());
    MUSTER_CHECK(from_peer_ != nullptr && to_peer_ != nullptr, "OpenSSL makes a buffer");
    SSL_set_bio(ssl_.get(), from_peer_, to_peer_);  // owns both
    SSL_set_msg_callback(ssl_.get(), &CountRecord);
    SSL_set_msg_callback_arg(ssl_.get(), this);
    is_server_ ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
  }
  TlsCodec(const TlsCodec&) = delete;
  TlsCodec& operator=(const TlsCodec&) = delete;

  absl::Status Start(std::string* out) override { return is_server_ ? absl::OkStatus() : GoOn(out); }

  absl::Status FromPeer(BootTime now, std::string_view bytes, std::string* plain, std::string* out) override {
    if (!ready_) {
      if (absl::Status status = CheckStart(bytes, out); !status.ok()) return status;
    }
    // OpenSSL reads nothing after the peer's close_notify, so all of it would be kept.
    if (ended_) return absl::InvalidArgumentError("it sends more after it has closed the connection");
    const auto size = static_cast<int>(bytes.size());
    if (BIO_write(from_peer_, bytes.data(), size) != size) return OpenSslFault("decrypting");
    if (!ready_) {
      if (absl::Status status = GoOn(out); !status.ok() || !ready_) return status;
    }
    return Read(now, plain, out);
  }

  absl::Status ToPeer(std::string_view plain, std::string* out) override {
    MUSTER_CHECK(ready_, "nothing is sent before the handshake is over");
    if (plain.empty()) return absl::OkStatus();
    ERR_clear_error();
    size_t written = 0;
    if (SSL_write_ex(ssl_.get(), plain.data(), plain.size(), &written) != 1) return OpenSslFault("encrypting");
    Collect(out);
    return absl::OkStatus();
  }

  void Close(std::string* out) override {
    if (!ready_) return;
    SSL_shutdown(ssl_.get());
    Collect(out);
  }

  std::string binding() const override {
    std::string out(kBindingBytes, '\0');
    const int done =
        SSL_export_keying_material(ssl_.get(), reinterpret_cast<unsigned char*>(out.data()), out.size(),
                                   kBindingLabel.data(), kBindingLabel.size(), nullptr, 0, 0);
    MUSTER_CHECK(done == 1, "a connection that is ready exports keys");
    return out;
  }

  bool ready() const override { return ready_; }

 private:
  // A peer without credentials, or another program, would get an answer that neither can read.
  absl::Status CheckStart(std::string_view bytes, std::string* out) {
    received_ += bytes.size();
    if (received_ > proof_->max_handshake_bytes()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("it sent more than ", proof_->max_handshake_bytes(), " bytes at first"));
    }
    if (!is_server_ || received_ != bytes.size() || IsClientHello(bytes)) return absl::OkStatus();
    if (bytes.front() == 'P') return proof_->WhyNoTls(out);
    out->append(kAlert);
    return absl::InvalidArgumentError("it does not speak TLS");
  }

  absl::Status GoOn(std::string* out) {
    ERR_clear_error();
    const int result = SSL_do_handshake(ssl_.get());
    const int error = SSL_get_error(ssl_.get(), result);
    Collect(out);
    if (result != 1) return error == SSL_ERROR_WANT_READ ? absl::OkStatus() : WhyItFailed();
    absl::Status proved = proof_->Check(ssl_.get());
    ready_ = proved.ok();
    return proved;
  }

  static void CountRecord(int is_written, int /*version*/, int type, const void* /*bytes*/, size_t /*size*/,
                          SSL* /*ssl*/, void* self) {
    if (is_written == 0 && type == SSL3_RT_HEADER) ++static_cast<TlsCodec*>(self)->new_records_;
  }

  // OpenSSL returns after each record, also if it has none of what is asked for (see MakeTlsContext).
  absl::Status Read(BootTime now, std::string* plain, std::string* out) {
    std::array<char, kReadBytes> buffer;
    while (true) {
      ERR_clear_error();
      size_t got = 0;
      new_records_ = 0;
      const int result = SSL_read_ex(ssl_.get(), buffer.data(), buffer.size(), &got);
      const bool took_record = new_records_ > 0;
      for (; new_records_ > 0; --new_records_) {
        if (!records_.Take(now))
          return absl::ResourceExhaustedError(
              absl::StrCat("it sent more than ", kRecordsPerSecond, " TLS records a second"));
      }
      if (result == 1) {
        plain->append(buffer.data(), got);
        accepted_ = true;
        if (HasMore()) continue;
        Collect(out);
        return absl::OkStatus();
      }
      const int error = SSL_get_error(ssl_.get(), result);
      Collect(out);
      ended_ = error == SSL_ERROR_ZERO_RETURN;  // the end of the connection follows
      if (ended_) return absl::OkStatus();
      if (error == SSL_ERROR_WANT_READ && took_record) continue;
      if (error == SSL_ERROR_WANT_READ) return absl::OkStatus();
      // A client's handshake is over before the server has checked what it shows (RFC 8446, section 4.4.2.4).
      return is_server_ || accepted_ || Alert() == 0 ? OpenSslFault("decrypting") : WhyItFailed();
    }
  }

  // A read that finds nothing costs as much as a heartbeat.
  bool HasMore() const { return BIO_pending(from_peer_) > 0 || SSL_has_pending(ssl_.get()) == 1; }

  absl::Status WhyItFailed() const { return proof_->WhyRefused(ssl_.get(), Alert()); }

  // What the other end said is wrong; 0: nothing.
  static int Alert() { return std::max(0, ERR_GET_REASON(ERR_peek_error()) - kAlertOffset); }

  void Collect(std::string* out) {
    const int size = BIO_pending(to_peer_);
    if (size <= 0) return;
    const size_t before = out->size();
    out->resize(before + static_cast<size_t>(size));
    MUSTER_CHECK(BIO_read(to_peer_, &(*out)[before], size) == size, "OpenSSL gives what it holds");
  }

  const std::shared_ptr<SSL_CTX> context_;
  const std::unique_ptr<TlsProof> proof_;
  const std::unique_ptr<SSL, decltype(&SSL_free)> ssl_;
  BIO* from_peer_ = nullptr;  // owned by ssl_
  BIO* to_peer_ = nullptr;    // owned by ssl_
  const bool is_server_;
  bool ready_ = false;
  bool ended_ = false;     // the peer sends nothing more
  bool accepted_ = false;  // the peer has sent something after its handshake
  size_t received_ = 0;    // bytes before it was ready
  int new_records_ = 0;    // in the newest call of OpenSSL
  Allowance records_{kRecordBurst, kRecordsPerSecond};
};

}  // namespace

std::shared_ptr<SSL_CTX> MakeTlsContext(const SSL_METHOD* method) {
  StartOpenSsl();
  std::shared_ptr<SSL_CTX> context(SSL_CTX_new(method), &SSL_CTX_free);
  MUSTER_CHECK(context != nullptr, "OpenSSL makes a context");
  SSL_CTX_set_options(context.get(), SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(context.get(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_clear_mode(context.get(), SSL_MODE_AUTO_RETRY);  // nothing is read that the codec has not counted
  SSL_CTX_set_read_ahead(context.get(), 1);                // one read for each record, not two
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  const bool set = SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_max_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                   SSL_CTX_set_ciphersuites(context.get(), kCipher) == 1 &&
                   SSL_CTX_set1_groups_list(context.get(), kGroup) == 1 &&
                   SSL_CTX_set_num_tickets(context.get(), 0) == 1;
  MUSTER_CHECK(set, "OpenSSL takes the settings");
  return context;
}

std::unique_ptr<Codec> MakeTlsCodec(const std::shared_ptr<SSL_CTX>& context, std::unique_ptr<TlsProof> proof,
                                    bool server) {
  return std::make_unique<TlsCodec>(context, std::move(proof), server);
}

bool OffersKey(SSL* ssl) {
  const unsigned char* extension = nullptr;
  size_t size = 0;
  return SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_psk, &extension, &size) == 1;
}

absl::Status OpenSslFault(const std::string& what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_peek_error(), text.data(), text.size());
  return absl::FailedPreconditionError(absl::StrCat(what, " failed: ", text.data()));
}

TlsServer::TlsServer(std::vector<GateKey> keys)
    : context_(MakeTlsContext(TLS_server_method())), keys_(std::make_shared<const Keys>(std::move(keys))) {
  MUSTER_CHECK(!keys_->empty(), "a server has a key");
  SSL_CTX_set_client_hello_cb(context_.get(), &DemandKey, nullptr);
  SSL_CTX_set_psk_find_session_callback(context_.get(), &FindSession);
}

std::unique_ptr<Codec> TlsServer::Accept() const {
  return MakeTlsCodec(context_, std::make_unique<KeyProof>(keys_, true), true);
}

TlsClient::TlsClient(GateKey key, bool shows_next)
    : context_(MakeTlsContext(TLS_client_method())),
      keys_(std::make_shared<const Keys>(Keys{std::move(key)})),
      shows_next_(shows_next) {
  SSL_CTX_set_psk_use_session_callback(context_.get(), &UseSession);
  SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);  // there are no authorities: no certificate passes
}

std::unique_ptr<Codec> TlsClient::Connect() const {
  return MakeTlsCodec(context_, std::make_unique<KeyProof>(keys_, false, shows_next_), false);
}

}  // namespace muster::rendezvous
