// Certificates for tests, made in memory.
#pragma once

#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/core/check.h"

namespace muster::rendezvous {

struct MadeCertificate {
  std::string cert, key;  // PEM
  std::shared_ptr<X509> x509;
  std::shared_ptr<EVP_PKEY> pkey;
};

struct CertificateWish {
  std::string names = "DNS:muster";  // subjectAltName; empty: none
  std::string usage = "serverAuth,clientAuth";
  absl::Time from = absl::Now() - absl::Hours(1);
  absl::Time until = absl::Now() + absl::Hours(24 * 30);
  bool authority = false;
};

template <typename Write>
std::string Pem(Write write) {
  BIO* const bio = BIO_new(BIO_s_mem());
  write(bio);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

// issuer: null: it signs itself.
inline MadeCertificate MakeCertificate(const CertificateWish& wish, const MadeCertificate* issuer) {
  MadeCertificate made;
  made.pkey.reset(EVP_EC_gen("P-256"), &EVP_PKEY_free);
  made.x509.reset(X509_new(), &X509_free);
  X509* const x509 = made.x509.get();
  static long serial = 1;
  X509_set_version(x509, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(x509), serial++);
  X509_NAME* const subject = X509_get_subject_name(x509);
  const std::string common = wish.authority ? "authority " + std::to_string(serial) : "node";
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>(common.c_str()),
                             -1, -1, 0);
  X509_set_issuer_name(x509, issuer == nullptr ? subject : X509_get_subject_name(issuer->x509.get()));
  ASN1_TIME_set(X509_getm_notBefore(x509), absl::ToTimeT(wish.from));
  ASN1_TIME_set(X509_getm_notAfter(x509), absl::ToTimeT(wish.until));
  X509_set_pubkey(x509, made.pkey.get());
  const auto extend = [x509](int kind, const std::string& value) {
    if (value.empty()) return;
    X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
    MUSTER_CHECK(extension != nullptr, "a test's extension is right");
    X509_add_ext(x509, extension, -1);
    X509_EXTENSION_free(extension);
  };
  extend(NID_basic_constraints, wish.authority ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (!wish.authority) {
    extend(NID_subject_alt_name, wish.names);
    extend(NID_ext_key_usage, wish.usage);
  }
  EVP_PKEY* const signer = issuer == nullptr ? made.pkey.get() : issuer->pkey.get();
  MUSTER_CHECK(X509_sign(x509, signer, EVP_sha256()) > 0, "a test's certificate is signed");
  made.cert = Pem([&](BIO* bio) { PEM_write_bio_X509(bio, x509); });
  made.key = Pem(
      [&](BIO* bio) { PEM_write_bio_PrivateKey(bio, made.pkey.get(), nullptr, nullptr, 0, nullptr, nullptr); });
  return made;
}

inline MadeCertificate MakeAuthority(const MadeCertificate* issuer = nullptr) {
  CertificateWish wish;
  wish.authority = true;
  return MakeCertificate(wish, issuer);
}

// The same authority, key included, with other dates.
inline std::string Renewed(const MadeCertificate& authority, absl::Time until) {
  const std::shared_ptr<X509> x509(X509_dup(authority.x509.get()), &X509_free);
  ASN1_TIME_set(X509_getm_notAfter(x509.get()), absl::ToTimeT(until));
  MUSTER_CHECK(X509_sign(x509.get(), authority.pkey.get(), EVP_sha256()) > 0, "a test's certificate is signed");
  return Pem([&](BIO* bio) { PEM_write_bio_X509(bio, x509.get()); });
}

}  // namespace muster::rendezvous
