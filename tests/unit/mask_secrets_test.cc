#include "agent/discovery/mask_secrets.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster::discovery {
namespace {

TEST(MaskSecrets, NamesLikeSecretsAreFound) {
  for (const char* name : {"HF_TOKEN",
                           "HUGGING_FACE_HUB_TOKEN",
                           "WANDB_API_KEY",
                           "AWS_SECRET_ACCESS_KEY",
                           "AWS_ACCESS_KEY_ID",
                           "AWS_SESSION_TOKEN",
                           "DB_PASSWORD",
                           "MYSQLPASSWORD",
                           "GITHUBTOKEN",
                           "MUSTER_TOKEN",
                           "pgpassword",
                           "DB_PWD",
                           "GOOGLE_APPLICATION_CREDENTIALS",
                           "SSH_AUTH_SOCK",
                           "SENTRY_DSN",
                           "OPENAI_APIKEY",
                           "GITLAB_PAT",
                           "app-secret",
                           "Spring.Password",
                           "HF_TOKENS"}) {
    EXPECT_TRUE(IsSecretName(name)) << name;
  }
}

TEST(MaskSecrets, OrdinaryNamesAreLeftAlone) {
  for (const char* name :
       {"TOKENIZERS_PARALLELISM", "PATH", "PWD", "OLDPWD", "KEYBOARD", "PYTHONPATH", "RANK", "CLUSTER_SPEC",
        "MASTER_ADDR", "COMPASS", "AUTHOR", "MONKEYTYPE", "LD_LIBRARY_PATH", ""}) {
    EXPECT_FALSE(IsSecretName(name)) << name;
  }
}

TEST(MaskSecrets, ValuesBecomeAMaskOfOneLengthAndEmptyOnesStay) {
  const Environment masked = MaskSecrets({{"HF_TOKEN", "x"}, {"A_KEY", "longer"}, {"B_KEY", ""}, {"RANK", "3"}});
  EXPECT_EQ(masked, (Environment{{"HF_TOKEN", kMask}, {"A_KEY", kMask}, {"B_KEY", ""}, {"RANK", "3"}}));
}

TEST(MaskSecrets, UserPartsOfUrlsAreMasked) {
  const Environment masked = MaskSecrets({{"A", "http://me:pw@proxy:3128/x@y"},
                                          {"B", "a://u@h b://p:q@r@h2 c://plain/@"},
                                          {"C", "see ://"},
                                          {"D", "gs://bucket/dir"}});
  EXPECT_EQ(masked.at("A"), "http://********@proxy:3128/x@y");
  EXPECT_EQ(masked.at("B"), "a://********@h b://********@h2 c://plain/@");
  EXPECT_EQ(masked.at("C"), "see ://");
  EXPECT_EQ(masked.at("D"), "gs://bucket/dir");
}

}  // namespace
}  // namespace muster::discovery
