// A fork-join pool: the caller works too, chunks are handed out by an atomic counter, nested and concurrent calls run
// in their own thread. Survives fork(): a child starts its own workers.
#include "core/parallel.hpp"

#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/error.hpp"

namespace faltung {
namespace {

int available_processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return int(std::max(1u, std::thread::hardware_concurrency()));
}

struct Job {
  std::int64_t count, chunk;
  faltung_body body;
  void* argument;
  std::atomic<std::int64_t> next{0};
  std::mutex error_mutex;
  std::exception_ptr error;

  void run() noexcept {
    for (;;) {
      auto const begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= count) return;
      try {
        body(argument, begin, std::min(begin + chunk, count));
      } catch (...) {
        std::lock_guard const lock(error_mutex);
        error = std::current_exception();
        next.store(count);
      }
    }
  }
};

class Pool {
 public:
  explicit Pool(int workers) {
    for (int i = 0; i < workers; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Pool() {
    {
      std::lock_guard const lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

  int workers() const { return int(threads_.size()); }

  void run(Job& job) {
    {
      std::lock_guard const lock(mutex_);
      job_ = &job;
      ++generation_;
      running_ = workers();
    }
    wake_.notify_all();
    job.run();
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return running_ == 0; });
    job_ = nullptr;
  }

 private:
  void work() {
    std::uint64_t seen = 0;
    for (;;) {
      Job* job;
      {
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
        if (stop_) return;
        seen = generation_;
        job = job_;
      }
      job->run();
      std::lock_guard const lock(mutex_);
      if (--running_ == 0) done_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;
  std::uint64_t generation_ = 0;
  int running_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

// Held while a job runs; whoever does not get it (a nested or a concurrent call) works alone. Leaked on purpose: no
// order of destruction at exit to get wrong, and a forked child must not join its parent's threads.
struct Owner {
  std::mutex busy;
  std::unique_ptr<Pool> pool;
};

std::atomic<Owner*> owner{new Owner};
std::atomic<int> requested{0};

void reset_in_child() { owner.store(new Owner); }

Owner& current_owner() {
  static int const registered = pthread_atfork(nullptr, nullptr, reset_in_child);
  (void)registered;
  return *owner.load();
}

}  // namespace

void set_num_threads(int threads) {
  require(threads >= 0 && threads <= 4096, "the number of threads must be from 0 to 4096, got ", threads);
  requested.store(threads);
}

int num_threads() {
  int const wanted = requested.load();
  if (wanted > 0) return wanted;
  static int const available = available_processors();
  return available;
}

void parallel_for(Parallel const& parallel, std::int64_t count, faltung_body body, void* argument) {
  if (count <= 0) return;
  if (parallel.function) {
    // Exceptions must not cross the caller's frames: keep the first, throw it again here.
    struct Carrier {
      faltung_body body;
      void* argument;
      std::mutex mutex;
      std::exception_ptr error;
    } carrier{body, argument, {}, {}};
    parallel.function(
        parallel.context, count,
        [](void* self, std::int64_t begin, std::int64_t end) {
          auto& c = *static_cast<Carrier*>(self);
          try {
            c.body(c.argument, begin, end);
          } catch (...) {
            std::lock_guard const lock(c.mutex);
            c.error = std::current_exception();
          }
        },
        &carrier);
    if (carrier.error) std::rethrow_exception(carrier.error);
    return;
  }
  int const threads = int(std::min<std::int64_t>(num_threads(), count));
  auto& shared = current_owner();
  std::unique_lock lock(shared.busy, std::defer_lock);
  if (threads <= 1 || !lock.try_lock()) return body(argument, 0, count);
  if (!shared.pool || shared.pool->workers() != num_threads() - 1) {
    shared.pool.reset();
    shared.pool = std::make_unique<Pool>(num_threads() - 1);
  }
  // Four chunks a thread even out differing speeds; fewer where the count does not give them.
  Job job{
      .count = count, .chunk = std::max<std::int64_t>(1, count / (4 * threads)), .body = body, .argument = argument};
  shared.pool->run(job);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace faltung
