#!/bin/sh
# Runs a job's script in a pod, in the project's folder at the same path, and prints the job's name.
#
#     submit.sh SCRIPT
set -eu
: "${BENCHSTUDY_IMAGE:?name the image made from envs/container}"
: "${BENCHSTUDY_VOLUME:?name the claim of the volume that the project lies on}"

# Links the job to its command, so that it ends with it.
told() {
    env | sed -nE "s/^(BENCHSTUDY_(CONTROLLER_[A-Z]+|JOBS_[A-Z]+))=(.*)/        - {name: \1, value: '\3'}/p"
}

kubectl create -o name -f - <<END
apiVersion: batch/v1
kind: Job
metadata:
  generateName: benchstudy-
spec:
  backoffLimit: 0
  ttlSecondsAfterFinished: 86400
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: job
        image: '$BENCHSTUDY_IMAGE'
        command: [sh, '$1']
        workingDir: '$PWD'
        env:
$(told)
        envFrom:
        - secretRef: {name: benchstudy, optional: true}
        resources:
          requests: {cpu: '1', memory: 2Gi}
        volumeMounts:
        - {name: volume, mountPath: '${BENCHSTUDY_VOLUME_PATH:-$PWD}'}
        - {name: ssh, mountPath: /root/.ssh}
      volumes:
      - name: volume
        persistentVolumeClaim: {claimName: '$BENCHSTUDY_VOLUME'}
      - name: ssh
        secret: {secretName: benchstudy-ssh, optional: true, defaultMode: 0400}
END
