#include "rendezvous/gate/certificates.h"

#include <openssl/asn1.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <cstddef>
#include <ctime>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/core/check.h"
#include "base/core/status_macros.h"
#include "base/crypto/openssl_start.h"
#include "base/text/text.h"
#include "base/text/utf8.h"
#include "rendezvous/gate/plain.h"
#include "rendezvous/gate/tls_codec.h"

namespace muster::rendezvous {
namespace {

constexpr size_t kMaxChain = 8;                   // certificates in one file of them
constexpr size_t kMaxAuthorities = 64;            // in the file of authorities
constexpr size_t kMaxHandshakeBytes = 32 * 1024;  // with a certificate and those between it and an authority
constexpr size_t kMaxShownBytes = 200;            // of a certificate's names
constexpr char kTheThree[] = "--tls-cert, --tls-key and --tls-ca";

struct Free {
  void operator()(BIO* it) const { BIO_free(it); }
  void operator()(X509* it) const { X509_free(it); }
  void operator()(EVP_PKEY* it) const { EVP_PKEY_free(it); }
  void operator()(X509_STORE* it) const { X509_STORE_free(it); }
  void operator()(X509_STORE_CTX* it) const { X509_STORE_CTX_free(it); }
  void operator()(GENERAL_NAMES* it) const { GENERAL_NAMES_free(it); }
  void operator()(STACK_OF(X509) * it) const { sk_X509_free(it); }  // does not own its certificates
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;
using Chain = std::vector<Owned<X509>>;

// ---- what a certificate says

std::string TextOf(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<size_t>(ASN1_STRING_length(text))};
}

CertificateNames NamesOf(X509* certificate) {
  CertificateNames names;
  const Owned<GENERAL_NAMES> all(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; i < sk_GENERAL_NAME_num(all.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(all.get(), i);
    if (name->type == GEN_DNS) names.dns.push_back(TextOf(name->d.dNSName));
    if (name->type == GEN_URI) names.uris.push_back(TextOf(name->d.uniformResourceIdentifier));
  }
  return names;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return absl::InfinitePast();  // as if it were over
  return absl::FromTM(fields, absl::UTCTimeZone());
}

Validity ValidityOf(X509* certificate) {
  return {.from = TimeOf(X509_get0_notBefore(certificate)), .until = TimeOf(X509_get0_notAfter(certificate))};
}

std::string Date(absl::Time time) { return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone()); }

// Names of a certificate that an authority has signed, but whose holder is not of this job.
std::string ShownNames(X509* certificate) { return OneLine(ToUtf8(Shown(NamesOf(certificate)), kMaxShownBytes)); }

// ---- verification

// Why a chain is not accepted, as a clause about the certificate that it begins with, and what to do.
std::string DescribeFault(X509_STORE_CTX* context, bool as_client) {
  const int fault = X509_STORE_CTX_get_error(context);
  X509* const at_fault = X509_STORE_CTX_get_current_cert(context);
  const Validity validity = at_fault == nullptr ? Validity() : ValidityOf(at_fault);
  const bool is_own = X509_STORE_CTX_get_error_depth(context) == 0;
  const char* const whose = is_own ? "" : "is of an authority whose certificate ";
  const char* const mend =
      is_own ? "renew it" : "replace it, in --tls-ca or where it follows the certificate in --tls-cert";
  switch (fault) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return absl::StrCat(whose, "has expired (it was valid until ", Date(validity.until), "): ", mend);
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return absl::StrCat(whose, "is not valid before ", Date(validity.from),
                          ": wait, or correct the clocks of the machines");
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
      return "was issued by none of the authorities in --tls-ca: use certificates of one authority on all nodes";
    case X509_V_ERR_INVALID_PURPOSE:
      return absl::StrCat("is not for ", as_client ? "clients" : "servers", ": let the authority add ",
                          as_client ? "clientAuth" : "serverAuth", " to its extendedKeyUsage");
    default:
      return absl::StrCat("cannot be verified: ", X509_verify_cert_error_string(fault));
  }
}

// ---- one connection

// What all connections of one set share. Never changes.
struct Shared {
  std::shared_ptr<SSL_CTX> server, client;
  PeerName name;
};

// By certificates.
class CertificateProof : public TlsProof {
 public:
  CertificateProof(std::shared_ptr<const Shared> shared, bool server)
      : shared_(std::move(shared)), is_server_(server) {}

  void Attach(SSL* ssl) override {
    SSL_set_app_data(ssl, this);
    SSL_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, &OnVerify);
  }

  // All of it was checked before, in an order that OpenSSL chooses.
  absl::Status Check(SSL* ssl) const override {
    X509* const peer = SSL_get0_peer_certificate(ssl);
    const bool proved = peer != nullptr && SSL_get_verify_result(ssl) == X509_V_OK &&
                        shared_->name.Admits(NamesOf(peer), role_of_peer());
    return proved ? absl::OkStatus() : absl::UnauthenticatedError("it proves no certificate");
  }

  absl::Status WhyRefused(SSL* /*ssl*/, int alert) const override {
    if (shows_token_) return absl::UnauthenticatedError("it has a token, and this job uses certificates");
    if (!fault_.empty())
      return absl::UnauthenticatedError(absl::StrCat(is_server_ ? "its certificate" : kDistrusted, " ", fault_));
    if (alert > 0) return is_server_ ? WhyClientLeaves(alert) : WhyServerRefuses(alert);
    if (!is_server_) return absl::InvalidArgumentError("it shows no certificate");
    const int reason = ERR_GET_REASON(ERR_peek_error());
    if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
      return absl::UnauthenticatedError(absl::StrCat("it shows no certificate: give it ", kTheThree));
    return OpenSslFault("the handshake");
  }

  absl::Status WhyNoTls(std::string* answer) const override {
    answer->append(kCertificateAlert);
    return absl::UnauthenticatedError("it has no certificate");
  }
  size_t max_handshake_bytes() const override { return kMaxHandshakeBytes; }

  // Refuses a client that has a token before it sees our certificate. The alert tells it that this job uses
  // certificates.
  static int OnHello(SSL* ssl, int* alert, void* /*unused*/) {
    auto* const proof = static_cast<CertificateProof*>(SSL_get_app_data(ssl));
    proof->shows_token_ = OffersKey(ssl);
    *alert = kNoCertificateAlert;
    return proof->shows_token_ ? SSL_CLIENT_HELLO_ERROR : SSL_CLIENT_HELLO_SUCCESS;
  }

 private:
  // A node dials the primary.
  TlsRole role_of_peer() const { return is_server_ ? TlsRole::kNode : TlsRole::kPrimary; }

  // Called for each certificate of the other end's chain, that of the end itself last (X509_verify_cert(3)), and
  // for each fault of it.
  static int OnVerify(int good, X509_STORE_CTX* context) {
    auto* const ssl = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
    auto* const proof = static_cast<CertificateProof*>(SSL_get_app_data(ssl));
    return proof->Verify(good == 1, context) ? 1 : 0;
  }

  bool Verify(bool good, X509_STORE_CTX* context) {
    X509* const certificate = X509_STORE_CTX_get_current_cert(context);
    if (!good) {
      fault_ = DescribeFault(context, is_server_);
      return false;
    }
    if (X509_STORE_CTX_get_error_depth(context) > 0) return true;
    if (shared_->name.Admits(NamesOf(certificate), role_of_peer())) return true;
    fault_ = absl::StrCat("has ", ShownNames(certificate), ", not ", shared_->name.Wanted(role_of_peer()),
                          ": use certificates of this run with the name that --tls-name demands");
    X509_STORE_CTX_set_error(context, X509_V_ERR_HOSTNAME_MISMATCH);
    return false;
  }

  // OpenSSL's alerts for faults of a certificate: ssl/statem/statem_lib.c, x509table.
  static absl::Status WhyServerRefuses(int alert) {
    switch (alert) {
      case SSL_AD_NO_APPLICATION_PROTOCOL:
        return absl::UnauthenticatedError(absl::StrCat(
            "this node has a certificate, and the coordinator has neither certificate nor token: give ", kTheThree,
            " to all nodes, or to none"));
      case SSL_AD_UNKNOWN_PSK_IDENTITY:
        return absl::UnauthenticatedError(
            "this node has a certificate, and the coordinator uses a token: give this node the token "
            "(--token-file or MUSTER_TOKEN) in place of --tls-cert, --tls-key and --tls-ca");
      case SSL_AD_HANDSHAKE_FAILURE:
        return absl::UnauthenticatedError(
            absl::StrCat("the coordinator does not take certificates: perhaps the job has a token; give ",
                         kTheThree, " to all nodes"));
      case SSL_AD_CERTIFICATE_EXPIRED:
        return absl::UnauthenticatedError("this node's certificate has expired: renew the file of --tls-cert");
      case SSL_AD_UNKNOWN_CA:
        return absl::UnauthenticatedError(
            "this node's certificate is of an authority that the coordinator does not know: use certificates of "
            "one authority on all nodes");
      case SSL_AD_BAD_CERTIFICATE:
      case SSL_AD_UNSUPPORTED_CERTIFICATE:
      case SSL_AD_CERTIFICATE_UNKNOWN:
      case SSL_AD_CERTIFICATE_REQUIRED:
        return absl::UnauthenticatedError(
            "the coordinator does not accept this node's certificate (its name, run, role or dates): the "
            "coordinator's log says why");
      default:
        return OpenSslFault("the handshake");
    }
  }

  // The client has seen the certificate of this coordinator, and does not trust it.
  static absl::Status WhyClientLeaves(int alert) {
    return absl::UnauthenticatedError(absl::StrCat("it does not accept this coordinator's certificate (",
                                                   SSL_alert_desc_string_long(alert), "): its own log says why"));
  }

  const std::shared_ptr<const Shared> shared_;
  const bool is_server_;
  bool shows_token_ = false;
  std::string fault_;  // of the other end's certificate
};

class OfCertificates : public Credentials {
 public:
  explicit OfCertificates(Shared shared) : shared_(std::make_shared<const Shared>(std::move(shared))) {}

  std::unique_ptr<Codec> Accept() const override { return Make(shared_->server, true); }
  std::unique_ptr<Codec> Connect(size_t /*choice*/) const override { return Make(shared_->client, false); }
  size_t choices() const override { return 1; }

 private:
  std::unique_ptr<Codec> Make(const std::shared_ptr<SSL_CTX>& context, bool server) const {
    return MakeTlsCodec(context, std::make_unique<CertificateProof>(shared_, server), server);
  }

  const std::shared_ptr<const Shared> shared_;
};

// ---- the files

absl::Status Wrong(std::string_view option, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat(AsAbsl(option), ": ", why));
}

Owned<BIO> Reader(const std::string& text) {
  Owned<BIO> bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  MUSTER_CHECK(bio != nullptr, "OpenSSL makes a buffer");
  return bio;
}

absl::StatusOr<Chain> ReadChain(const std::string& text, size_t most, std::string_view option) {
  const Owned<BIO> bio = Reader(text);
  Chain chain;
  ERR_clear_error();
  while (Owned<X509> next{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    chain.push_back(std::move(next));
    if (chain.size() > most) return Wrong(option, absl::StrCat("expected at most ", most, " certificates"));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!at_end) return Wrong(option, absl::StrCat("certificate ", chain.size() + 1, " of the file is damaged"));
  if (chain.empty()) return Wrong(option, "expected a certificate in PEM form (BEGIN CERTIFICATE)");
  return chain;
}

// Asks for no passphrase.
int NoPassphrase(char* /*buffer*/, int /*size*/, int /*writing*/, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

absl::StatusOr<Owned<EVP_PKEY>> ReadKey(const std::string& text) {
  const Owned<BIO> bio = Reader(text);
  bool encrypted = false;
  ERR_clear_error();
  Owned<EVP_PKEY> key(PEM_read_bio_PrivateKey(bio.get(), nullptr, &NoPassphrase, &encrypted));
  ERR_clear_error();
  if (key != nullptr) return key;
  if (encrypted) return Wrong("--tls-key", "the key is encrypted: expected one without a passphrase");
  return Wrong("--tls-key", "expected a private key in PEM form (BEGIN PRIVATE KEY)");
}

// A digest of name and key: by these, not by its dates, an authority vouches for others.
std::string DigestOf(X509* authority) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> name{}, key{};
  unsigned name_size = 0, key_size = 0;
  const bool made =
      X509_NAME_digest(X509_get_subject_name(authority), EVP_sha256(), name.data(), &name_size) == 1 &&
      X509_pubkey_digest(authority, EVP_sha256(), key.data(), &key_size) == 1;
  MUSTER_CHECK(made, "OpenSSL hashes");
  return std::string(name.begin(), name.begin() + name_size) + std::string(key.begin(), key.begin() + key_size);
}

std::vector<std::string> DigestsOf(const Chain& authorities) {
  std::vector<std::string> digests;
  for (const Owned<X509>& each : authorities) digests.push_back(DigestOf(each.get()));
  return digests;
}

Owned<X509_STORE> StoreOf(const Chain& authorities) {
  Owned<X509_STORE> store(X509_STORE_new());
  MUSTER_CHECK(store != nullptr, "OpenSSL makes a store");
  for (const Owned<X509>& authority : authorities) X509_STORE_add_cert(store.get(), authority.get());
  // What the operator names is trusted, even if another authority has signed it.
  X509_STORE_set_flags(store.get(), X509_V_FLAG_PARTIAL_CHAIN);
  return store;
}

struct Lives {
  Validity own;    // of the certificate and those that lead from it to the authority
  Validity above;  // of the authority that vouches for them
};

// verified: from the certificate to the authority. Other certificates in the files do not count. Of an authority
// that was renewed with its key, the certificate that is valid for longest counts.
Lives LivesOf(const STACK_OF(X509) * verified, const Chain& authorities) {
  Lives lives;
  const int last = sk_X509_num(verified) - 1;
  for (int i = 0; i < std::max(last, 1); ++i) lives.own = Both(lives.own, ValidityOf(sk_X509_value(verified, i)));
  if (last < 1) return lives;
  X509* const top = sk_X509_value(verified, last);
  lives.above = ValidityOf(top);
  for (const Owned<X509>& authority : authorities) {
    const Validity its = ValidityOf(authority.get());
    if (its.until > lives.above.until && DigestOf(authority.get()) == DigestOf(top)) lives.above = its;
  }
  return lives;
}

// As the other ends will verify it.
absl::StatusOr<Lives> VerifyOwn(const Chain& chain, const Chain& authorities, X509_STORE* store, bool as_client,
                                std::optional<absl::Time> now) {
  const Owned<STACK_OF(X509)> between(sk_X509_new_null());
  for (size_t i = 1; i < chain.size(); ++i) sk_X509_push(between.get(), chain[i].get());
  const Owned<X509_STORE_CTX> context(X509_STORE_CTX_new());
  MUSTER_CHECK(context != nullptr && X509_STORE_CTX_init(context.get(), store, chain[0].get(), between.get()) == 1,
               "OpenSSL verifies");
  X509_STORE_CTX_set_default(context.get(), as_client ? "ssl_client" : "ssl_server");
  X509_VERIFY_PARAM* const parameters = X509_STORE_CTX_get0_param(context.get());
  if (now) X509_VERIFY_PARAM_set_time(parameters, absl::ToTimeT(*now));
  if (!now) X509_VERIFY_PARAM_set_flags(parameters, X509_V_FLAG_NO_CHECK_TIME);
  const bool good = X509_verify_cert(context.get()) == 1;
  ERR_clear_error();
  if (good) return LivesOf(X509_STORE_CTX_get0_chain(context.get()), authorities);
  return Wrong("--tls-cert", absl::StrCat("the certificate ", DescribeFault(context.get(), as_client)));
}

std::shared_ptr<SSL_CTX> ContextOf(const SSL_METHOD* method, const Chain& chain, EVP_PKEY* key,
                                   X509_STORE* store) {
  std::shared_ptr<SSL_CTX> context = MakeTlsContext(method);
  bool set = SSL_CTX_use_certificate(context.get(), chain[0].get()) == 1 &&
             SSL_CTX_use_PrivateKey(context.get(), key) == 1;
  for (size_t i = 1; i < chain.size(); ++i)
    set = set && SSL_CTX_add1_chain_cert(context.get(), chain[i].get()) == 1;
  if (!set) return nullptr;
  SSL_CTX_set1_cert_store(context.get(), store);
  SSL_CTX_set_max_cert_list(context.get(), kMaxHandshakeBytes);
  return context;
}

}  // namespace

absl::StatusOr<CertificateSet> MakeCertificateSet(const CertificateTexts& texts, const PeerName& name,
                                                  TlsRole role, std::optional<absl::Time> now) {
  StartOpenSsl();
  ASSIGN_OR_RETURN(const Chain chain, ReadChain(texts.cert, kMaxChain, "--tls-cert"));
  ASSIGN_OR_RETURN(const Chain authorities, ReadChain(texts.ca, kMaxAuthorities, "--tls-ca"));
  ASSIGN_OR_RETURN(const Owned<EVP_PKEY> key, ReadKey(texts.key));
  const bool same = X509_check_private_key(chain[0].get(), key.get()) == 1;
  ERR_clear_error();
  if (!same) return Wrong("--tls-key", "it is not the key of the certificate in --tls-cert: replace both");
  const Owned<X509_STORE> store = StoreOf(authorities);
  ASSIGN_OR_RETURN(const Lives lives, VerifyOwn(chain, authorities, store.get(), /*as_client=*/true, now));
  if (role == TlsRole::kPrimary) {
    RETURN_IF_ERROR(VerifyOwn(chain, authorities, store.get(), /*as_client=*/false, now).status());
  }
  if (!name.Admits(NamesOf(chain[0].get()), role)) {
    return Wrong(
        "--tls-cert",
        absl::StrCat("the certificate has ", ShownNames(chain[0].get()), ", not ", name.Wanted(role),
                     ": give this node one with that name, or set --tls-name and --rdzv-id to what it has"));
  }
  Shared shared{.server = ContextOf(TLS_server_method(), chain, key.get(), store.get()),
                .client = ContextOf(TLS_client_method(), chain, key.get(), store.get()),
                .name = name};
  const absl::Status taken = OpenSslFault("--tls-cert: OpenSSL does not take it: this");
  ERR_clear_error();
  if (shared.server == nullptr || shared.client == nullptr) return taken;
  SSL_CTX_set_client_hello_cb(shared.server.get(), &CertificateProof::OnHello, nullptr);
  return CertificateSet{.credentials = std::make_shared<OfCertificates>(std::move(shared)),
                        .validity = Both(lives.own, lives.above),
                        .authority_ends_first = lives.above.until < lives.own.until,
                        .authorities = DigestsOf(authorities)};
}

}  // namespace muster::rendezvous
