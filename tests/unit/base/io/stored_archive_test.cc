#include "base/io/stored_archive.h"

#include <gtest/gtest.h>

#include "base/io/memory_file.h"
#include "tests/unit/python_archive.h"

namespace muster {
namespace {

TEST(StoredArchive, PythonFindsItWhole) {
  const auto archive = MemoryFile("test", StoredArchive({{"some_module.py", "from pack.part import value\n"},
                                                         {"pack/__init__.py", ""},
                                                         {"pack/part.py", "value = 'content'\n"}}));
  ASSERT_TRUE(archive.ok());
  EXPECT_EQ(Python("import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; "
                   "assert z.read('pack/part.py') == b'value = \\'content\\'\\n'; "
                   "assert z.namelist() == ['some_module.py', 'pack/__init__.py', 'pack/part.py']",
                   *archive),
            0);
  EXPECT_EQ(Python("import sys; sys.path.insert(0, sys.argv[1]); import some_module; "
                   "assert some_module.value == 'content'",
                   *archive),
            0);
}

}  // namespace
}  // namespace muster
