// The pool and injected threads: every index exactly once, exceptions arrive, nested, concurrent and forked calls work.
#include "core/parallel.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace faltung {
namespace {

void expect_each_once(Parallel const& parallel, std::int64_t count) {
  std::vector<std::atomic<int>> seen(std::size_t(count > 0 ? count : 0));
  parallel_for(parallel, count, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i) ++seen[std::size_t(i)];
  });
  for (auto const& times : seen) ASSERT_EQ(times, 1);
}

void injected(void* context, std::int64_t count, faltung_body body, void* argument) {
  ++*static_cast<int*>(context);
  std::thread([=] { body(argument, count / 2, count); }).join();
  body(argument, 0, count / 2);
}

struct ParallelFor : ::testing::Test {
  ~ParallelFor() override { set_num_threads(0); }
};

TEST_F(ParallelFor, visits_each_index_once) {
  for (int const threads : {1, 2, 3, 8}) {
    set_num_threads(threads);
    for (std::int64_t const count : {-1, 0, 1, 2, 7, 1000}) expect_each_once({}, count);
  }
  int calls = 0;
  expect_each_once({injected, &calls}, 9);
  EXPECT_EQ(calls, 1);
  expect_each_once({injected, &calls}, 0);
  EXPECT_EQ(calls, 1) << "nothing to do: no call";
}

TEST_F(ParallelFor, exceptions_reach_the_caller) {
  int calls = 0;
  for (Parallel const& parallel : {Parallel{}, Parallel{injected, &calls}}) {
    set_num_threads(3);
    for (int i = 0; i < 50; ++i)
      EXPECT_THROW(parallel_for(parallel, 100,
                                [](std::int64_t begin, std::int64_t end) {
                                  if (begin <= 61 && 61 < end) fail(FALTUNG_RUNTIME_ERROR, "61");
                                }),
                   Failure);
    expect_each_once(parallel, 100);
  }
}

TEST_F(ParallelFor, nests) {
  set_num_threads(3);
  std::atomic<int> sum{0};
  parallel_for({}, 20, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = begin; i < end; ++i)
      parallel_for({}, 10, [&](std::int64_t first, std::int64_t last) { sum += int(last - first); });
  });
  EXPECT_EQ(sum, 200);
}

TEST_F(ParallelFor, takes_concurrent_callers_and_changing_thread_counts) {
  std::vector<std::thread> callers;
  for (int n = 0; n < 4; ++n)
    callers.emplace_back([n] {
      for (int i = 0; i < 200; ++i) {
        if (i % 16 == 0) set_num_threads(1 + (n + i) % 4);
        expect_each_once({}, 37);
      }
    });
  for (auto& caller : callers) caller.join();
}

TEST_F(ParallelFor, works_in_a_forked_child) {
  set_num_threads(3);
  expect_each_once({}, 100);  // the parent has workers, which the child does not
  auto const child = fork();
  if (child == 0) {
    alarm(20);
    expect_each_once({}, 100);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

TEST_F(ParallelFor, thread_counts_are_checked) {
  EXPECT_THROW(set_num_threads(-1), Failure);
  EXPECT_THROW(set_num_threads(4097), Failure);
  set_num_threads(5);
  EXPECT_EQ(num_threads(), 5);
  set_num_threads(0);
  EXPECT_GE(num_threads(), 1);
}

}  // namespace
}  // namespace faltung
