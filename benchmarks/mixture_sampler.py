"""Speed of the mixture of regressions on 5,571 records, against plain NumPyro NUTS of the same model.

Claim: 1,000 warm-up and 1,000 draws in 4 chains take less than ten minutes on two cores, with an effective sample size
above 400 for the mean of the fitted population and R-hat at most 1.05 for everything that is watched; and effective
draws per second are at least 3 times those of a plain run. The plain run is the model as one would write it from PP22's
appendix B with the label summed out by NumPyro's own mixture: plain design, default start, default NUTS. It is given
``--plain`` iterations in all, since a full run takes hours; its effective draws per second are those of its draws over
its whole time, as for ours. With ``--records`` both have so many of the records, which says more of the plain run.
Seconds are those of the clock: other work on the machine counts; processor seconds do not.
"""

import os
import time
import warnings
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

import numpy as np
from _bench import save, verdict
from _harness import script, show
from pp22_application import MODEL, sample

from discreet._core.random import seeded
from discreet.inference.summary import effective_sample_size, r_hat
from discreet.pseudo_posterior import PseudoPosterior

MINUTES, EFFECTIVE, RATIO, AGREEMENT = 10.0, 400.0, 3.0, 1.05


def plain_model(data: Any) -> None:
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist

    K, R = MODEL.clusters, data["design"].shape[1]
    half_t = dist.FoldedDistribution(dist.StudentT(3.0, 0.0, 1.0))
    total = numpyro.sample("a", dist.Gamma(1.0, 1.0))
    shares = numpyro.sample("shares", dist.Dirichlet(jnp.full(K, total / K)))
    spreads = numpyro.sample("spreads", half_t.expand([R]).to_event(1))
    root = spreads[:, None] * numpyro.sample("correlations", dist.LKJCholesky(R, 1.0))
    beta = numpyro.sample("beta", dist.MultivariateNormal(0.0, scale_tril=root).expand([K]).to_event(1))
    scales = MODEL.response.least_scale + numpyro.sample("excess", half_t.expand([K]).to_event(1))
    means = data["design"] @ beta.T
    numpyro.deterministic("fitted_mean", (means @ shares).mean())
    mixture = dist.MixtureSameFamily(dist.Categorical(shares), dist.Normal(means, scales))
    numpyro.sample("Income", mixture, obs=data["Income"])


def ours(columns: Any, draws: int, chains: int) -> dict[str, float]:
    mechanism = PseudoPosterior(MODEL, draws=draws, warm_up=draws, chains=chains, chain_method="parallel")
    started, cpu = time.perf_counter(), time.process_time()
    sampler = mechanism.sampler(columns)
    made = sampler.draw(np.ones(sampler.count), rng=seeded(1))
    found = measured(made.watched["fitted_mean[0]"], started, cpu, made.divergent)
    return {**found, "r_hat": made.r_hat, "least_effective": made.effective}


def numpyro_alone(columns: Any, iterations: int, count: int) -> dict[str, float]:
    import jax
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS

    encoded = {"design": MODEL.design.matrix(columns, len(columns["Income"])),
               "Income": MODEL.response.encode(columns["Income"])}  # fmt: skip
    data = {key: jnp.asarray(value) for key, value in encoded.items()}
    started, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chains = MCMC(NUTS(plain_model), num_warmup=iterations // 2, num_samples=iterations // 2, num_chains=count,
                      chain_method="parallel", progress_bar=False)  # fmt: skip
        chains.run(jax.random.PRNGKey(1), data)
    watched = np.asarray(chains.get_samples(group_by_chain=True)["fitted_mean"], dtype=np.float64)
    divergent = float(np.asarray(chains.get_extra_fields()["diverging"]).mean())
    return measured(watched, started, cpu, divergent)


def measured(watched: Any, started: float, cpu: float, divergent: float) -> dict[str, float]:
    seconds, used = time.perf_counter() - started, time.process_time() - cpu
    effective = effective_sample_size(watched)
    return {
        "seconds": seconds, "cpu_seconds": used, "effective": effective, "effective_a_second": effective / seconds,
        "effective_a_cpu_second": effective / used, "r_hat": r_hat(watched), "divergent": divergent,
        "least_effective": effective,
    }  # fmt: skip


@script(draws=(1000, 20), plain=(100, 4), records=5571, chains=4)
def main(draws: int, plain: int, records: int, chains: int) -> None:
    columns = {name: values[:records] for name, values in sample().items()}
    mine = ours(columns, draws, chains)
    print(mine, flush=True)
    other = numpyro_alone(columns, plain, chains)
    show(("run", *mine), [{"run": "ours", **mine}, {"run": "plain", **other}])
    ratio = mine["effective_a_cpu_second"] / other["effective_a_cpu_second"]
    met = {"minutes": mine["seconds"] / 60 < MINUTES, "effective": mine["effective"] > EFFECTIVE}
    met |= {"ratio": ratio >= RATIO, "r_hat": mine["r_hat"] <= AGREEMENT}
    print(f"ratio of effective draws per second of the processor: {ratio:.3g};",
          ", ".join(f"{name} {verdict(good)}" for name, good in met.items()))  # fmt: skip
    facts = {"draws": draws, "plain_iterations": plain, "records": records, "chains": chains}
    save("mixture_sampler", {**facts, "ours": mine, "plain": other, "ratio_a_cpu_second": ratio, "met": met})
