# The app on port 8501, as a user without rights:
#   docker build -t moe-sd-advisor . && docker run --rm -p 127.0.0.1:8501:8501 moe-sd-advisor
# It answers to the names localhost and 127.0.0.1; docs/security.md says how to share it.
FROM python:3.11-slim

RUN useradd --create-home advisor
WORKDIR /home/advisor/app

# Live profiling, of the machine's own device, alone needs torch, and `explore --dask` alone Dask.
COPY requirements.txt ./
RUN grep -Ev '^(torch|dask|distributed)==' requirements.txt > /tmp/requirements.txt \
    && pip install --no-cache-dir --disable-pip-version-check -r /tmp/requirements.txt

COPY --chown=advisor . .
RUN chown advisor .
USER advisor
RUN python -m advisor store build

EXPOSE 8501
CMD ["python", "-m", "streamlit", "run", "serve.py", "--server.address", "0.0.0.0", "--server.port", "8501"]
