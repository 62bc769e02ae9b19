#include "base/crypto/whereabouts.h"

#include "absl/strings/str_cat.h"
#include "base/crypto/digest.h"

namespace muster {

v1::Whereabouts WhereaboutsOf(const std::string& boot_id, const std::string& pid_namespace, uid_t user,
                              pid_t host) {
  v1::Whereabouts where;
  if (boot_id.empty() || pid_namespace.empty()) return where;
  where.set_machine(ShortHash(absl::StrCat("muster machine ", boot_id)));
  where.set_container(ShortHash(absl::StrCat("container ", boot_id, " ", pid_namespace)));
  where.set_user(ShortHash(absl::StrCat("user ", boot_id, " ", user, " ", pid_namespace)));
  where.set_process(ProcessHash(where.user(), host));
  return where;
}

std::string ProcessHash(const std::string& user, pid_t pid) {
  return ShortHash(absl::StrCat("process ", user, " ", pid));
}

}  // namespace muster
